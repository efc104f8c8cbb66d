"""Runs of units from files and pipes."""

from __future__ import annotations

import io
import os
import sys
import threading

import pytest

from dragoman.cli.units import RUN_UNITS, runs_of_units
from dragoman.errors import DataError


@pytest.fixture
def pipe(monkeypatch):
    """A pipe as standard input; its writing end."""
    reading, writing = os.pipe()
    monkeypatch.setattr(sys, "stdin", os.fdopen(reading))
    with os.fdopen(writing, "wb", buffering=0) as stream:
        yield stream
        sys.stdin.close()


def test_a_file_comes_in_full_runs(tmp_path):
    file = tmp_path / "text"
    file.write_bytes(b"".join(b"%d\n" % n for n in range(2 * RUN_UNITS + 3)))
    runs = list(runs_of_units(str(file), bad_bytes="refuse"))
    assert [len(run) for run in runs] == [RUN_UNITS, RUN_UNITS, 3]
    assert [unit for run in runs for unit in run] == [str(n) for n in range(2 * RUN_UNITS + 3)]


@pytest.mark.parametrize(("data", "units"), [(b"", []), (b"\n", [""]), (b"a\nb", ["a", "b"])])
def test_small_files_and_pipes(tmp_path, pipe, data, units):
    file = tmp_path / "text"
    file.write_bytes(data)
    pipe.write(data)
    pipe.close()
    for path in (str(file), "-"):
        assert [unit for run in runs_of_units(path, bad_bytes="refuse") for unit in run] == units


def test_a_pipe_gives_what_has_come_and_waits_for_nothing_more(pipe):
    runs = runs_of_units("-", bad_bytes="refuse")
    for line in ("one", "two", "three"):
        pipe.write(f"{line}\n".encode())
        assert next(runs) == [line]
    pipe.write(b"no end of line")
    pipe.close()
    assert list(runs) == [["no end of line"]]


def test_a_long_pipe_keeps_its_order(pipe):
    wanted = [f"unit {n}" for n in range(3 * RUN_UNITS)]

    def write():
        pipe.write("".join(f"{unit}\n" for unit in wanted).encode())
        pipe.close()

    writer = threading.Thread(target=write)
    writer.start()
    runs = list(runs_of_units("-", bad_bytes="refuse"))
    writer.join()
    assert [unit for run in runs for unit in run] == wanted
    assert all(1 <= len(run) <= RUN_UNITS for run in runs)


def test_a_named_pipe_is_answered_as_it_comes(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    runs = runs_of_units(str(path), bad_bytes="refuse")
    first = []
    reader = threading.Thread(target=lambda: first.append(next(runs)))
    reader.start()
    with open(path, "wb", buffering=0) as stream:
        stream.write(b"one\n")
        reader.join(30)
        assert first == [["one"]]
        stream.write(b"two\n")
    assert list(runs) == [["two"]]


def test_what_came_before_bad_bytes_is_answered_first(pipe):
    pipe.write(b"one\n")
    runs = runs_of_units("-", bad_bytes="refuse")
    assert next(runs) == ["one"]
    pipe.write(b"\xff\n")
    with pytest.raises(DataError) as raised:
        next(runs)
    assert "standard input, line 2" in str(raised.value.where)


def test_a_file_with_bad_bytes_gives_nothing_of_its_run(tmp_path):
    file = tmp_path / "text"
    file.write_bytes(b"one\n\xff\n")
    with pytest.raises(DataError, match="0xff"):
        list(runs_of_units(str(file), bad_bytes="refuse"))
    assert list(runs_of_units(str(file), bad_bytes="replace")) == [["one", "\ufffd"]]


@pytest.mark.parametrize("name", ["missing", "."])
def test_what_cannot_be_opened_is_a_data_error(tmp_path, name):
    with pytest.raises(DataError):
        list(runs_of_units(str(tmp_path / name), bad_bytes="refuse"))


def test_standard_input_that_is_no_file_of_the_system(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))
    units = [unit for run in runs_of_units("-", bad_bytes="refuse") for unit in run]
    assert units == ["one", "two"]


def test_the_readers_of_pipes_never_keep_python_alive(pipe):
    runs = runs_of_units("-", bad_bytes="refuse")
    pipe.write(b"one\n")
    next(runs)
    waiting = [thread for thread in threading.enumerate() if thread.name == "dragoman-input"]
    assert waiting
    assert all(thread.daemon for thread in waiting)
    runs.close()
