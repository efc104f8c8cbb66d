"""What made a file: versions, processor, commit; carried by every checkpoint, model and score.

Paper: none (infrastructure)
"""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from dragoman import __version__

LIBRARIES = ("torch", "sentencepiece", "sacrebleu", "numpy")


@cache
def version_of(package: str) -> str:
    """Installed version of a package, or "absent"."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


@cache
def processor() -> str:
    """The processor's name as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@cache
def commit() -> str | None:
    """The commit of dragoman's own source where it runs from a git checkout, with `+` if files differ."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--abbrev=12"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def provenance() -> dict[str, str]:
    """Versions and machine, as strings."""
    facts = {"dragoman": __version__, "python": platform.python_version()}
    facts |= {library: version_of(library) for library in LIBRARIES}
    facts |= {"system": platform.system(), "processor": processor()}
    if (revision := commit()) is not None:
        facts["commit"] = revision
    return facts
