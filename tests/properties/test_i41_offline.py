"""I41: no command talks to another host, and none needs a home to write into, a locale, or a certain directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from dragoman.native.build import SWITCH

GUARD = """
import socket

def refuse(*arguments, **options):
    raise SystemExit("a connection was tried")

for name in ("connect", "connect_ex", "sendto", "bind"):
    setattr(socket.socket, name, refuse)
for name in ("getaddrinfo", "gethostbyname", "create_connection"):
    setattr(socket, name, refuse)
"""


def run(folder, *arguments, cwd, kernels):
    """A command of its own: sockets refuse, the home cannot be written, the locale is C.

    With the kernels each would compile them, having nowhere to keep them.
    """
    (folder / "sitecustomize.py").write_text(GUARD, encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "HOME": "/dev/null",
        "XDG_CACHE_HOME": "/dev/null/cache",
        "LC_ALL": "C",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        **({} if kernels else {SWITCH: "0"}),
    }
    command = [sys.executable, "-m", "dragoman", *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, timeout=300, check=False)


def test_the_guard_guards(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(GUARD, encoding="utf-8")
    code = "import urllib.request; urllib.request.urlopen('http://localhost:9')"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
    assert b"a connection was tried" in result.stderr


def test_the_whole_path_offline(lab, tmp_path):
    guard, work = tmp_path / "guard", tmp_path / "work"
    guard.mkdir()
    work.mkdir()
    commands = [
        ("prepare", lab.source, lab.target, "--out", "prepared", "--vocab-size", 345),
        ("train", "prepared", "--out", "run", "--recipe", lab.recipe, "--max-steps", 4),
        ("average", "run", "--out", "averaged"),
        ("translate", "averaged", lab.dev_source, "--out", "out.xx"),
        ("evaluate", "out.xx", lab.dev_target, "--json"),
        ("score", "averaged", lab.dev_source, "out.xx"),
        ("recipe", "list"),
    ]
    for command in commands:
        result = run(guard, *command, cwd=work, kernels=command[0] == "train")
        assert result.returncode == 0, (command, result.stderr.decode())
        if command[0] == "evaluate":
            assert json.loads(result.stdout)
    umlaut = run(guard, "translate", "averaged", "-", cwd=work, kernels=False)
    assert umlaut.returncode == 0
