"""The kernels are compiled once, loaded only if nobody else can have written them, and done without where need be."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest

from dragoman.native import build
from dragoman.native.library import Kernels, kernels

HAS_COMPILER = kernels() is not None
needs_compiler = pytest.mark.skipif(not HAS_COMPILER, reason="no C++ compiler here")


@pytest.fixture
def in_haste(tmp_path, monkeypatch):
    """Where to cache is as the environment says; what is compiled is compiled in haste, since nothing is run."""
    monkeypatch.setattr(build, "FLAGS", tuple("-O0" if flag == "-O3" else flag for flag in build.FLAGS))
    monkeypatch.delenv(build.SWITCH, raising=False)


@pytest.fixture
def cache(tmp_path, monkeypatch, in_haste):
    """An empty cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dragoman"


@pytest.fixture
def small_source(tmp_path, monkeypatch):
    """Instead of ours: how it is kept is the same for every source."""
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "one.cpp").write_text('extern "C" int one() { return 1; }\n', encoding="utf-8")
    monkeypatch.setattr(build, "SOURCES", sources)
    return sources


def count_compilations(monkeypatch):
    done = []
    run = subprocess.run

    def counted(*arguments, **options):
        done.append(arguments)
        return run(*arguments, **options)

    monkeypatch.setattr(build.subprocess, "run", counted)
    return done


@needs_compiler
def test_it_is_compiled_once_into_the_cache_of_the_user(cache, monkeypatch):
    done = count_compilations(monkeypatch)
    first = build.compiled()
    assert first is not None
    assert first.parent == cache
    assert build.compiled() == first
    assert len(done) == 1
    assert os.listdir(cache) == [first.name], "nothing half-made stays"
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert len(Kernels(first).digest) == 16


@needs_compiler
@pytest.mark.usefixtures("small_source")
@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_what_others_can_write_is_not_loaded(cache, monkeypatch, mode):
    done = count_compilations(monkeypatch)
    place = build.compiled()
    place.chmod(mode)
    assert build.compiled() == place
    assert len(done) == 2
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


@needs_compiler
@pytest.mark.usefixtures("small_source")
def test_nor_what_lies_where_others_can_put_it(cache, monkeypatch):
    """Then it is compiled for this process, elsewhere."""
    place = build.compiled()
    cache.chmod(0o777)
    elsewhere = build.compiled()
    assert elsewhere != place
    assert stat.S_IMODE(elsewhere.parent.stat().st_mode) == 0o700


@needs_compiler
@pytest.mark.usefixtures("small_source")
def test_it_is_told_beforehand_that_it_will_be_compiled(cache, monkeypatch):
    assert build.will_compile()
    build.compiled()
    assert not build.will_compile()
    cache.joinpath(os.listdir(cache)[0]).unlink()
    monkeypatch.setenv(build.SWITCH, "0")
    assert not build.will_compile()
    monkeypatch.delenv(build.SWITCH)
    monkeypatch.setattr(build.shutil, "which", lambda _name: None)
    assert not build.will_compile()


@needs_compiler
@pytest.mark.usefixtures("small_source")
def test_a_link_is_not_followed(cache, tmp_path, monkeypatch):
    place = build.compiled()
    elsewhere = tmp_path / "elsewhere.so"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    done = count_compilations(monkeypatch)
    assert build.compiled() == place
    assert len(done) == 1
    assert not place.is_symlink()


@needs_compiler
def test_another_source_is_another_library(cache, small_source):
    before = build.compiled()
    (small_source / "more.h").write_text("\n", encoding="utf-8")
    assert build.compiled() != before


@needs_compiler
@pytest.mark.usefixtures("in_haste", "small_source")
def test_without_a_home_it_is_compiled_for_the_process(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    place = build.compiled()
    assert place is not None
    assert place.is_file()


def test_it_can_be_switched_off(cache, monkeypatch):
    monkeypatch.setenv(build.SWITCH, "0")
    assert build.compiled() is None
    assert not cache.exists()


def test_no_compiler_and_a_broken_one_are_done_without(cache, tmp_path, monkeypatch):
    monkeypatch.setattr(build.shutil, "which", lambda _name: None)
    assert build.compiled() is None
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    broken.chmod(0o700)
    monkeypatch.setattr(build.shutil, "which", lambda _name: str(broken))
    assert build.compiled() is None
    assert os.listdir(cache) == []


def test_a_library_that_cannot_be_loaded_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "no.so").write_bytes(b"no library")
    monkeypatch.setattr("dragoman.native.library.compiled", lambda: tmp_path / "no.so")
    assert kernels.__wrapped__() is None
