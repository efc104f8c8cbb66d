"""The kernels compute the same where vectors are shorter: compiled for those, and what tests them is run again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from dragoman.native import kernels

HERE = Path(__file__).parent
TESTS = [HERE / f"test_{name}.py" for name in ("native", "native_decoding", "whole_search", "cached")]

# What a compiler calls them, what a processor must have, outputs that lie together, formats of products.
PROCESSORS = [
    pytest.param("x86-64", set(), 8, ["fp32"], id="SSE2"),
    pytest.param(
        "x86-64-v3", {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"}, 16, ["fp32", "int8"], id="AVX2"
    ),
]


def instructions() -> set[str]:
    """That this processor has; none where that cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set())


@pytest.mark.slow
@pytest.mark.skipif(kernels() is None, reason="no C++ compiler here")
@pytest.mark.parametrize(("name", "wanted", "panel", "formats"), PROCESSORS)
def test_kernels_for_a_processor_with_shorter_vectors(tmp_path, name, wanted, panel, formats):
    has = instructions()
    if "sse2" not in has or not wanted <= has:
        pytest.skip("this processor cannot run what is compiled for that one")
    compiler = tmp_path / "compiler"
    compiler.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        f"os.execvp('c++', ['c++', *(a.replace('=native', '={name}') for a in sys.argv[1:])])\n",
        encoding="utf-8",
    )
    compiler.chmod(0o700)
    environment = {
        **os.environ,
        "CXX": str(compiler),
        "XDG_CACHE_HOME": str(tmp_path),
        "PYTHONPATH": str(Path(dragoman.__file__).parents[1]),
    }
    code = "from dragoman.native import kernels; print(kernels().panel, *kernels().formats)"
    found = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == [str(panel), *formats]
    again = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, TESTS)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stdout[-3000:]
