"""The line rule at work on files, streams, compressed files and broken ones."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from dragoman.errors import ConfigError, DataError
from dragoman.text.lines import (
    RawUnit,
    count_units,
    name_of,
    open_bytes,
    read_raw_units,
    read_units,
    split_units,
    write_units,
)

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}
ODD = "a\vb\fc\x1cd\x1de\x1ef\x1fg\x85h\u2028i\u2029j\rk"
LINES = [f"line {k} \u00e4\u00f6 {'x' * (k % 97)}" for k in range(5000)]


class FakeStandardStream:
    """Stands for sys.stdin or sys.stdout: only its bytes are used."""

    def __init__(self, data: bytes = b"") -> None:
        self.buffer = io.BytesIO(data)


def test_only_lf_ends_a_unit() -> None:
    assert split_units(f"{ODD}\n{ODD}".encode()) == [ODD.encode()] * 2


@pytest.mark.parametrize(
    ("data", "units"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"\n\n", [b"", b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\r\nb\r", [b"a", b"b"]),
        (b"a\r\r\n", [b"a\r"]),
        (b"\r\n", [b""]),
        (b"\xef\xbb\xbf", []),
        (b"\xef\xbb\xbf\n", [b""]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [b"a", b"\xef\xbb\xbfb"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfa\n", [b"\xef\xbb\xbfa"]),
        (b"\xef\xbb\n", [b"\xef\xbb"]),
        (b"a\x00b\n", [b"a\x00b"]),
    ],
)
def test_split_units(data: bytes, units: list[bytes]) -> None:
    assert split_units(data) == units


def test_count_reads_as_split_does(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for data in (b"", b"\xef\xbb\xbf", b"a", b"a\n", b"\n\n\r\nx", b"\xff\n\xfe"):
        path.write_bytes(data)
        assert count_units(path) == len(split_units(data))


def test_offsets_are_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"\xef\xbb\xbfab\r\n\ncd")
    assert list(read_raw_units(path)) == [RawUnit(b"ab", 3), RawUnit(b"", 7), RawUnit(b"cd", 8)]


@pytest.mark.parametrize("suffix", [*COMPRESS, ".GZ"])
def test_compressed_by_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_bytes(COMPRESS[suffix.lower()]("\n".join(LINES).encode()))
    assert list(read_units(path)) == LINES
    assert count_units(os.fspath(path)) == len(LINES)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_several_members_in_a_row(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_bytes(COMPRESS[suffix](b"a\nb") + COMPRESS[suffix](b"c\n") + COMPRESS[suffix](b"d"))
    assert list(read_units(path)) == ["a", "bc", "d"]


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("keep", [0.0, 0.02, 0.5, 0.9, 0.999])
def test_cut_file_is_refused(tmp_path: Path, suffix: str, keep: float) -> None:
    path = tmp_path / f"t{suffix}"
    whole = COMPRESS[suffix](os.urandom(1 << 18) + "\n".join(LINES).encode())
    path.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(DataError, match="damaged") as caught:
        count_units(path)
    assert path.name in str(caught.value)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_plain_text_with_a_compressed_name_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_bytes(b"this is plain text, long enough to hold any header\n")
    with pytest.raises(DataError, match=path.name):
        list(read_units(path))


def test_changed_byte_in_gzip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    data = bytearray(gzip.compress("\n".join(LINES).encode()))
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(DataError, match="damaged"):
        count_units(path)


def test_missing_and_directory(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file") as caught:
        count_units(tmp_path / "absent.en")
    assert "absent.en" in str(caught.value)
    with pytest.raises(DataError, match="directory"):
        count_units(tmp_path)
    (tmp_path / "d.gz").mkdir()
    with pytest.raises(DataError, match="directory"):
        open_bytes(tmp_path / "d.gz")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_not_permitted(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("a\n")
    path.chmod(0)
    with pytest.raises(DataError, match="secret"):
        count_units(path)


def test_bad_bytes_name_file_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "train.en"
    path.write_bytes(b"\xef\xbb\xbfgood\nna\xefve\n")
    with pytest.raises(DataError) as caught:
        list(read_units(path))
    message = str(caught.value)
    assert "train.en, line 2, column byte 3" in message
    assert "byte offset 10 of the file" in message
    assert "0xef" in message


def test_bad_bytes_replaced_keep_the_count(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"a\xff\nb\n")
    assert list(read_units(path, bad_bytes="replace")) == ["a\ufffd", "b"]


def test_skipping_lines_of_one_side_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pairs"):
        list(read_units(tmp_path / "t", bad_bytes="skip"))  # type: ignore[arg-type]


def test_reading_is_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"good\n\xff\n")
    units = read_units(path)
    assert next(units) == "good"


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", FakeStandardStream(b"a\rb\nc"))
    assert list(read_units("-")) == ["a\rb", "c"]
    assert name_of("-") == "standard input"


def test_open_stream_is_read_and_left_open() -> None:
    stream = io.BytesIO(b"a\nb\n")
    assert list(read_units(stream)) == ["a", "b"]
    assert not stream.closed


def test_name_of_stream_and_path() -> None:
    assert name_of(Path("x/y")) == "x/y"
    assert name_of(io.BytesIO()) == "stream"


@pytest.mark.parametrize("suffix", ["", *COMPRESS])
def test_write_then_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out{suffix}"
    units = ["\ufefffirst", "", ODD, "ends in CR\r", "\ufeff", "last"]
    assert write_units(path, iter(units)) == len(units)
    assert list(read_units(path)) == units


def test_written_bytes_are_plain(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write_units(path, ["a", "", "\u00e4"])
    assert path.read_bytes() == b"a\n\n\xc3\xa4\n"


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_output_is_the_same_each_time(tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    write_units(first, LINES)
    write_units(second, LINES)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("bad", ["two\nlines", "surrogate \ud800"])
def test_unwritable_unit_leaves_the_old_file(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "out"
    path.write_text("old\n")
    with pytest.raises(DataError, match="unit 2"):
        write_units(path, ["good", bad])
    assert path.read_text() == "old\n"
    assert os.listdir(tmp_path) == ["out"]


def test_failing_source_leaves_no_file(tmp_path: Path) -> None:
    def units() -> Iterator[str]:
        yield "a"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_units(tmp_path / "out", units())
    assert os.listdir(tmp_path) == []


def test_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    write_units(tmp_path / "out", ["a"])
    (tmp_path / "plain").write_text("a")
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == stat.S_IMODE(
        (tmp_path / "plain").stat().st_mode
    )


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old\n")
    (tmp_path / "link").symlink_to("real")
    write_units(tmp_path / "link", ["new"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new\n"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_units(pipe, ["a", "b"])
    assert os.read(reader, 100) == b"a\nb\n"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_what_a_killed_process_left_beside_goes(tmp_path: Path) -> None:
    """Not what a living one writes, nor what was written a moment ago, nor what only looks like it."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    dead = process.pid
    process.wait()
    names = {
        "stale": f".out.txt.{dead}.0123abcd.tmp",
        "fresh": f".out.txt.{dead}.0123abce.tmp",
        "of a living process": f".out.txt.{os.getpid()}.0123abcd.tmp",
        "of another file": f".out.txt.gz.{dead}.0123abcd.tmp",
        "somebody's own": ".out.txt.mine.0123abcd.tmp",
    }
    for kind, name in names.items():
        (tmp_path / name).write_text("half")
        if kind != "fresh":
            os.utime(tmp_path / name, (1.0, 1.0))
    write_units(tmp_path / "out.txt", ["whole"])
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"out.txt", *names.values()} - {names["stale"]}


def test_no_directory_to_write_to(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        write_units(tmp_path / "absent" / "out", ["a"])
    with pytest.raises(DataError, match="cannot be written"):
        write_units(tmp_path, ["a"])


def test_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = FakeStandardStream()
    monkeypatch.setattr(sys, "stdout", stream)
    assert write_units("-", ["a", "b\r"]) == 2
    assert stream.buffer.getvalue() == b"a\nb\r\r\n"


def test_messy_real_files() -> None:
    root = os.environ.get("DRAGOMAN_DATA")
    if not root:
        pytest.skip("DRAGOMAN_DATA is not set")
    messy = Path(root, "messy")
    assert count_units(messy / "23-multi30k-val.de.zst") == count_units(messy / "23-multi30k-val.en.zst") > 0
    assert count_units(messy / "21-multi30k.de.gz") == count_units(messy / "21-multi30k.en.gz") > 0
    assert not any(unit.endswith("\r") for unit in read_units(messy / "15-crlf-nonNFC.de"))


@pytest.mark.parametrize(("encoding", "named"), [("utf-16-le", "UTF-16LE"), ("utf-16-be", "UTF-16BE")])
def test_utf16_is_called_by_its_name(tmp_path, encoding, named):
    path = tmp_path / "windows.txt"
    path.write_bytes("\ufeffGrüße\nzwei".encode(encoding))
    with pytest.raises(DataError) as caught:
        list(read_units(path))
    assert caught.value.what == f"the file is {named}, not UTF-8"
    assert caught.value.cure == f"convert it: iconv -f UTF-16 -t UTF-8 {path} > converted.txt"
    assert len(list(read_units(path, bad_bytes="replace"))) == 2


def test_the_marks_of_utf16_mean_nothing_inside_a_file(tmp_path):
    path = tmp_path / "late.txt"
    path.write_bytes(b"one\n\xff\xfe\n")
    with pytest.raises(DataError, match="byte 0xff"):
        list(read_units(path))
