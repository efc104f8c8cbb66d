"""Compiles the C++ beside this file for this processor, or finds it compiled.

Paper: none (infrastructure)
"""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent
# -ffp-contract=off: a product and a sum are rounded once where that is written, and nowhere else.
# -fno-math-errno, -fno-trapping-math: nobody looks at errno or the flags of the processor; no rounding changes by them.
FLAGS = (
    "-O3",
    "-march=native",
    "-std=c++17",
    "-shared",
    "-fPIC",
    "-fopenmp",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
)
SWITCH = "DRAGOMAN_NATIVE"
_SECONDS = 120  # a compiler that takes longer is not waited for


def compiled() -> Path | None:
    """The shared library, compiled now if need be; None where it is switched off or cannot be made."""
    if _is_off():
        return None
    place = _place()
    if _is_ours(place):
        return place
    compiler = _compiler()
    if compiler is None:
        return None
    try:
        return _compile(compiler, place)
    except (OSError, subprocess.SubprocessError):
        return None


def will_compile() -> bool:
    """Whether `compiled` would take some seconds."""
    return not _is_off() and _compiler() is not None and not _is_ours(_place())


def is_switched_off() -> bool:
    """Whether the environment says to do without."""
    return os.environ.get(SWITCH) == "0"


def _is_off() -> bool:
    return is_switched_off() or os.name != "posix"


def _compiler() -> str | None:
    names = (os.environ.get("CXX", "c++"), "g++", "clang++")
    return next(filter(None, map(shutil.which, names)), None)


def _place() -> Path:
    return cache_directory() / f"kernels-{_digest()}.so"


def cache_directory() -> Path:
    """Of this user, for what can be made again."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home, "dragoman")


def _digest() -> str:
    """Of everything that decides what the compiler would make, but for its own version."""
    texts = [path.read_bytes() for path in sorted(SOURCES.glob("*.[ch]*"))]
    facts = [*texts, " ".join(FLAGS).encode(), platform.machine().encode(), _instructions()]
    return hashlib.sha256(b"\0".join(facts)).hexdigest()[:16]


def _instructions() -> bytes:
    """What the processor can do: a home directory may be shared by different ones."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().split(b"\n")
    except OSError:
        return platform.processor().encode()
    return b"\n".join(line for line in lines[:30] if line.startswith((b"model name", b"flags", b"Features")))


def _is_ours(place: Path) -> bool:
    """A library is code: it is loaded only if nobody else can have written it, or put it there."""
    try:
        found, folder = place.lstat(), place.parent.stat()
    except OSError:
        return False
    others_write = (found.st_mode | folder.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISREG(found.st_mode) and {found.st_uid, folder.st_uid} == {os.getuid()} and not others_write


def _compile(compiler: str, place: Path) -> Path:
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if place.parent.stat().st_uid != os.getuid() or place.parent.stat().st_mode & 0o022:
            raise PermissionError
        folder = Path(tempfile.mkdtemp(prefix="compile-", dir=place.parent))
    except OSError:  # no home of our own to write in: compiled for this process alone
        folder = Path(tempfile.mkdtemp(prefix="dragoman-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        place = folder / place.name
    made = folder / "made.so"
    try:
        sources = sorted(map(str, SOURCES.glob("*.cpp")))
        command = [compiler, *FLAGS, *sources, "-o", str(made)]
        subprocess.run(command, capture_output=True, check=True, timeout=_SECONDS)
        made.chmod(0o700)
        os.replace(made, place)
    finally:
        if place.parent != folder:
            shutil.rmtree(folder, ignore_errors=True)
    return place
