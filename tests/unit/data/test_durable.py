"""Directories appear whole or not at all."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman
from dragoman.data.durable import whole_directory
from dragoman.errors import DataError


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def write_and_fail(place: Path, error: BaseException) -> None:
    with whole_directory(place) as folder:
        (folder / "f").write_text("x")
        raise error


def test_nothing_is_seen_until_the_end(tmp_path: Path) -> None:
    with whole_directory(tmp_path / "a" / "out") as folder:
        (folder / "f").write_text("x")
        assert not (tmp_path / "a" / "out").exists()
        assert folder.parent == tmp_path / "a"
    assert names(tmp_path / "a") == ["out"]
    assert (tmp_path / "a" / "out" / "f").read_text() == "x"


def test_permissions_are_those_of_any_new_directory(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with whole_directory(tmp_path / "out"):
        pass
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3)])
def test_an_error_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)):
        write_and_fail(tmp_path / "out", error)
    assert names(tmp_path) == []


def test_an_error_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("old")
    with pytest.raises(KeyboardInterrupt), whole_directory(tmp_path / "out"):
        raise KeyboardInterrupt
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["old"]


def test_a_new_one_takes_the_place_of_the_old(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("old")
    with whole_directory(tmp_path / "out") as folder:
        (folder / "new").write_text("new")
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["new"]


def test_the_old_one_comes_back_when_the_rename_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_text("old")
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if ".partial-" in self.name:
            raise OSError(errno.EIO, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(DataError, match="Input/output error"), whole_directory(tmp_path / "out"):
        pass
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["old"]


def test_a_link_to_a_directory_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with whole_directory(tmp_path / "link") as folder:
        (folder / "f").write_text("x")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "real") == ["f"]


def test_a_full_disk_is_said_in_words_and_leaves_nothing(tmp_path: Path) -> None:
    error = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "out" / "f"))
    with pytest.raises(DataError) as caught:
        write_and_fail(tmp_path / "out", error)
    assert "No space left on device" in caught.value.what
    assert caught.value.where == str(tmp_path / "out" / "f")
    assert names(tmp_path) == []


def test_a_file_in_the_way_of_a_parent_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(DataError, match="cannot write the directory: this is a file") as caught,
        whole_directory(tmp_path / "file" / "out"),
    ):
        pass
    assert caught.value.where == str(tmp_path / "file")
    assert "space" not in caught.value.cure


def test_every_file_is_synced_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[int | str] = []  # inodes of what is synced
    fsync, rename = os.fsync, Path.rename

    def telling_fsync(descriptor: int) -> None:
        events.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def telling_rename(self: Path, target: Path) -> Path:
        events.append("rename")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", telling_fsync)
    monkeypatch.setattr(Path, "rename", telling_rename)
    with whole_directory(tmp_path / "out") as folder:
        (folder / "sub").mkdir()
        (folder / "sub" / "f").write_text("x")
    out = tmp_path / "out"
    inodes = [path.stat().st_ino for path in (out / "sub" / "f", out / "sub", out, tmp_path)]
    assert events == [*inodes[:3], "rename", inodes[3]]


KILLED = """
import os, signal, sys
from pathlib import Path
from dragoman.data.durable import whole_directory
with whole_directory(Path(sys.argv[1])) as folder:
    (folder / "f").write_text("half")
    print("writing", flush=True)
    sys.stdin.read()
"""


def start_writing(place: Path) -> subprocess.Popen[str]:
    """A process that has begun to write `place` and waits."""
    source = str(Path(dragoman.__file__).parent.parent)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def test_what_a_killed_process_left_goes_with_the_next_and_nothing_else_does(tmp_path: Path) -> None:
    place = tmp_path / "out[1]"
    with start_writing(place) as killed:
        killed.kill()
    left = names(tmp_path)
    assert [name.partition("-")[0] for name in left] == [".out[1].partial"]
    with start_writing(place) as at_work:
        new = [name for name in names(tmp_path) if name not in left]
        assert len(names(tmp_path)) == len(new) == 1, "the one of the killed process has gone"
        (tmp_path / ".out[1]x.partial-1").mkdir()
        with whole_directory(place):
            pass
        assert names(tmp_path) == [*sorted([*new, ".out[1]x.partial-1"]), "out[1]"]
        at_work.communicate("")
    assert (place / "f").read_text() == "half"
