"""malloc's thresholds; in processes of their own, as the setting is the whole process's."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dragoman.training import allocator

# Takes and drops the same 64 MB again and again and counts the pages that had to be fetched anew.
COUNT_FAULTS = """
import resource, sys
from dragoman.training.allocator import keep_big_blocks
import numpy
if sys.argv[1] == "keep":
    assert keep_big_blocks()
for _ in range(3):
    numpy.ones(8_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    numpy.ones(8_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone has these settings")


def faults(argument: str) -> int:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", COUNT_FAULTS, argument]
    return int(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


@LINUX
@pytest.mark.skipif(
    not hasattr(os, "confstr") or "glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""), reason="not glibc"
)
def test_big_blocks_are_kept():
    kept, fetched = faults("keep"), faults("leave")
    assert kept < fetched / 10


def test_the_users_own_settings_are_left_alone(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _name: pytest.fail("malloc was touched"))
    assert not allocator.keep_big_blocks()


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(allocator.sys, "platform", "darwin")
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _name: pytest.fail("malloc was touched"))
    assert not allocator.keep_big_blocks()


@pytest.mark.parametrize("error", [OSError, AttributeError])
def test_a_libc_without_mallopt_is_no_error(monkeypatch, error):
    def missing(_name: str) -> object:
        raise error("no mallopt")

    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(allocator.sys, "platform", "linux")
    monkeypatch.setattr(allocator.ctypes, "CDLL", missing)
    assert not allocator.keep_big_blocks()


def test_a_refused_setting_is_told(monkeypatch):
    asked = []

    class Library:
        @staticmethod
        def mallopt(name: int, value: int) -> int:
            asked.append(name)
            return int(len(asked) != 2)

    for name in [name for name in os.environ if name.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(allocator.sys, "platform", "linux")
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _name: Library)
    assert not allocator.keep_big_blocks()
    assert sorted(asked) == [-3, -2, -1]


def test_kernels_are_kept_unless_the_user_has_set_how_many(monkeypatch):
    monkeypatch.setattr(allocator, "keep_big_blocks", lambda: True)
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    allocator.tune_process()
    assert int(os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"]) > 1024
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "7")
    allocator.tune_process()
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "7"
