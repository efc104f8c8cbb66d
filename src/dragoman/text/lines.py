"""The line rule, everywhere the same: how bytes become units of text, and units become bytes.

Paper: none (infrastructure)

Text is UTF-8. A unit ends at LF (0x0A) only, and a last part without LF counts; one CR before the end of
a unit is dropped; a byte-order mark at the start of a file is dropped once. No other byte or code point
ends a unit: not a lone CR, VT, FF, U+001C to U+001E, U+0085, U+2028 or U+2029. Files whose names end in
`.gz`, `.xz` or `.zst` are compressed; "-" is standard input or output.
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import io
import lzma
import os
import re
import secrets
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

import zstandard

from dragoman.errors import CHECK_PATH, CHECK_ROOM, ConfigError, DataError
from dragoman.text.zstd import open_zstd

TextSource = str | os.PathLike[str] | BinaryIO
BadBytes = Literal["refuse", "replace"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = {b"\xff\xfe": "UTF-16LE", b"\xfe\xff": "UTF-16BE"}
STANDARD_STREAM = "-"
IDLE_SECONDS = 60.0
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zstandard.ZstdError)
_COMPRESSED = (".gz", ".xz", ".zst")


class RawUnit(NamedTuple):
    """One unit as bytes, and where it starts in the (uncompressed) file."""

    data: bytes
    offset: int


def name_of(source: TextSource) -> str:
    """The name to show to people for a path, "-" or an open stream."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        shown = getattr(source, "display_name", path)
        return "standard input" if path == STANDARD_STREAM else str(shown)
    return str(getattr(source, "name", "stream"))


def open_bytes(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading bytes, decompressed by its name; "-" is standard input itself.

    Raises:
        DataError: no such file, a directory, not permitted, or an empty file with a compressed name.
    """
    name = os.fspath(path)
    if name == STANDARD_STREAM:
        return sys.stdin.buffer
    with reading(path):
        return _open_named(name)


@contextlib.contextmanager
def reading(source: TextSource) -> Iterator[None]:
    """Turn what can go wrong while reading `source` into a DataError that names it."""
    where = name_of(source)
    try:
        yield
    except _DAMAGE as error:
        reason = str(error) or "it ends too early"
        raise DataError(
            f"the compressed file is damaged or is no compressed file: {reason}",
            where=where,
            cure="copy it again, or rename it if it is plain text",
        ) from error
    except FileNotFoundError as error:
        raise DataError("there is no such file", where=where, cure="check the path") from error
    except IsADirectoryError as error:
        raise DataError("this is a directory, not a file", where=where, cure="name a file in it") from error
    except OSError as error:
        raise DataError(
            f"the file cannot be read: {error.strerror or error}",
            where=where,
            cure=CHECK_PATH,
        ) from error


def split_units(data: bytes) -> list[bytes]:
    """The units of a whole file's bytes, by the line rule."""
    return [unit.data for unit in _raw_units(io.BytesIO(data))]


def read_raw_units(source: TextSource) -> Iterator[RawUnit]:
    """Read units as bytes in a stream; memory is that of the longest unit.

    Args:
        source: a path, "-" for standard input, or an open binary stream, which is left open.

    Raises:
        DataError: the file cannot be opened or read, or is damaged.
    """
    with _opened(source) as stream, reading(source):
        yield from _raw_units(stream)


def read_units(source: TextSource, *, bad_bytes: BadBytes = "refuse") -> Iterator[str]:
    """Read units as text in a stream.

    Args:
        source: as for `read_raw_units`.
        bad_bytes: "refuse" bytes that are not UTF-8, or "replace" each such sequence by U+FFFD. Skipping
            is for pairs only (`ParallelText.pairs`): one side alone would no longer match the other.

    Raises:
        DataError: as `read_raw_units`; also for bad bytes, naming the file, the line and the byte.
    """
    if bad_bytes not in ("refuse", "replace"):
        raise ConfigError(
            f'bad_bytes="{bad_bytes}" is not possible for a single text',
            cure='use "refuse" or "replace"; "skip" is for pairs',
        )
    for number, unit in enumerate(read_raw_units(source), 1):
        yield decode_unit(unit, bad_bytes=bad_bytes, where=name_of(source), number=number)


def decode_unit(unit: RawUnit, *, bad_bytes: BadBytes, where: str, number: int) -> str:
    """A raw unit as text.

    Raises:
        DataError: the unit is not UTF-8 and `bad_bytes` is "refuse".
    """
    if bad_bytes == "replace":
        return unit.data.decode("utf-8", errors="replace")
    try:
        return unit.data.decode("utf-8")
    except UnicodeDecodeError as error:
        encoding = _UTF16_MARKS.get(unit.data[:2])
        if unit.offset == 0 and encoding is not None:
            raise DataError(
                f"the file is {encoding}, not UTF-8",
                where=where,
                cure=f"convert it: iconv -f UTF-16 -t UTF-8 {where} > converted.txt",
            ) from error
        raise DataError(
            f"byte 0x{unit.data[error.start]:02x} is not UTF-8 here",
            where=f"{where}, line {number}, column byte {error.start + 1}, "
            f"byte offset {unit.offset + error.start} of the file (from 0)",
            cure="convert the file to UTF-8, or choose what becomes of such bytes (--bad-bytes)",
        ) from error


def check_text(path: str | os.PathLike[str]) -> None:
    """Reads a text once to its end, so that nothing is begun that bad bytes would break off.

    Raises:
        DataError: as `read_units`.
    """
    for _unit in read_units(path):
        pass


def count_units(source: TextSource) -> int:
    """How many units a text has; nothing is decoded.

    Raises:
        DataError: as `read_raw_units`.
    """
    return sum(1 for _ in read_raw_units(source))


def encode_unit(unit: str, *, number: int, where: str) -> bytes:
    """The bytes of unit `number` (from 1) with its line end, such that reading gives the same unit back.

    A unit that ends in CR is ended by CR LF, of which the line rule drops one CR; a first unit that begins
    with U+FEFF is preceded by a byte-order mark, which is dropped once.

    Raises:
        DataError: the unit holds LF, and would become two, or a surrogate, which UTF-8 cannot hold.
    """
    if "\n" in unit:
        raise DataError(
            f"unit {number} holds a line feed and would become two lines",
            where=where,
            cure="put a space in its place",
        )
    try:
        data = unit.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"unit {number} holds a surrogate, which UTF-8 cannot hold",
            where=where,
            cure="leave it out, or replace it by U+FFFD",
        ) from error
    start = BYTE_ORDER_MARK if number == 1 and data.startswith(BYTE_ORDER_MARK) else b""
    return start + data + (b"\r\n" if data.endswith(b"\r") else b"\n")


def refuse_to_overwrite(out: str, *inputs: str) -> None:
    """Refuses to write a result over a text it is made from.

    Raises:
        ConfigError: `out` is the file of one of the inputs, or no name at all.
    """
    if not out:
        raise ConfigError("the name of the file to write is empty", cure="give one, or - for standard output")
    for name in inputs:
        both_there = STANDARD_STREAM not in (out, name) and os.path.exists(out) and os.path.exists(name)
        if both_there and os.path.samefile(out, name):
            raise ConfigError(f"{out} is the text to read, and would be lost", cure="give another --out")


def refuse_standard_input_twice(*names: str | os.PathLike[str]) -> None:
    """Refuses "-" for more than one text: the second would be empty.

    Raises:
        ConfigError: it is named more than once.
    """
    if sum(os.fspath(name) == STANDARD_STREAM for name in names) > 1:
        raise ConfigError("standard input is named more than once", cure="use it for one file only")


def write_units(path: str | os.PathLike[str], units: Iterable[str]) -> int:
    """Write units, LF after each, so that `read_units` gives exactly them back.

    The file appears whole or not at all: it is written beside its place, synced and renamed; when `units`
    raises, what was there before stays. A name in `.gz`, `.xz` or `.zst` is compressed. Standard output
    ("-") and things that are not plain files (a pipe, a device) are written to as the units come.

    Returns:
        The number of units written.

    Raises:
        DataError: a unit cannot be written (see `encode_unit`), or the file cannot.
    """
    name = os.fspath(path)
    if name == STANDARD_STREAM:
        return _write_to(sys.stdout.buffer, units, where="standard output", flush_each=True)
    final = Path(os.path.realpath(name))
    with _writing(name):
        if final.exists() and not final.is_file():
            with open(final, "wb") as stream:
                return _write_to(stream, units, where=name, flush_each=True)
        return _write_beside(final, units, where=name)


def _write_beside(final: Path, units: Iterable[str], *, where: str) -> int:
    with replacing(final) as stream, _compressing(stream, final.suffix.lower()) as sink:
        return _write_to(sink, units, where=where)


@contextlib.contextmanager
def replacing(final: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of `final` when the block ends without an exception, else goes."""
    _clear_away(final)
    temporary = final.with_name(f".{final.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)


def _clear_away(final: Path) -> None:
    """What a process that was killed left of such a file: it is there no more, and wrote nothing for a minute."""
    for path in final.parent.glob(f".{glob.escape(final.name)}.*.*.tmp"):
        found = re.fullmatch(r"\.(\d+)\.[0-9a-f]{8}\.tmp", path.name.removeprefix(f".{final.name}"))
        if found and not _is_running(int(found[1])):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > IDLE_SECONDS:
                    path.unlink()


def _is_running(process: int) -> bool:
    if os.name != "posix":  # signal 0 means something else there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _write_to(stream: BinaryIO, units: Iterable[str], *, where: str, flush_each: bool = False) -> int:
    number = 0
    for number, unit in enumerate(units, 1):
        stream.write(encode_unit(unit, number=number, where=where))
        if flush_each:
            stream.flush()
    return number


@contextlib.contextmanager
def _writing(where: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(
            f"the file cannot be written: {error.strerror or error}",
            where=where,
            cure=CHECK_ROOM,
        ) from error


@contextlib.contextmanager
def _compressing(stream: BinaryIO, suffix: str) -> Iterator[BinaryIO]:
    match suffix:
        case ".gz":  # no name and no time inside: the same units give the same bytes
            with gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0) as sink:
                yield cast(BinaryIO, sink)
        case ".xz":
            with lzma.LZMAFile(stream, "wb") as sink_xz:
                yield cast(BinaryIO, sink_xz)
        case ".zst":
            with zstandard.ZstdCompressor().stream_writer(stream, closefd=False) as sink_zst:
                yield cast(BinaryIO, sink_zst)
        case _:
            yield stream


def _raw_units(stream: BinaryIO) -> Iterator[RawUnit]:
    offset = 0
    for line in stream:  # a binary stream splits at LF only
        start, offset = offset, offset + len(line)
        if start == 0 and line.startswith(BYTE_ORDER_MARK):
            line, start = line[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK)
            if not line:
                continue
        if line.endswith(b"\n"):
            line = line[:-1]
        yield RawUnit(line.removesuffix(b"\r"), start)


@contextlib.contextmanager
def _opened(source: TextSource) -> Iterator[BinaryIO]:
    if not isinstance(source, str | os.PathLike):
        yield source
    elif os.fspath(source) == STANDARD_STREAM:
        yield sys.stdin.buffer
    else:
        with open_bytes(source) as stream:
            yield stream


def _open_named(name: str) -> BinaryIO:
    suffix = Path(name).suffix.lower()
    if suffix not in _COMPRESSED:
        return open(name, "rb")
    if os.path.isfile(name) and os.path.getsize(name) == 0:
        raise EOFError("it is empty")
    match suffix:
        case ".gz":
            return cast(BinaryIO, gzip.open(name, "rb"))
        case ".xz":
            return cast(BinaryIO, lzma.open(name, "rb"))
        case _:
            return open_zstd(open(name, "rb"))
