"""I01: a unit ends at LF and nowhere else, a last part without LF counts, one CR before an end is dropped."""

from __future__ import annotations

import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.text.lines import count_units, read_raw_units, read_units, split_units, write_units

BOM = b"\xef\xbb\xbf"
ENDERS_ELSEWHERE = "\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029\ufeff\0"  # what str.splitlines and others split at

texts = st.text(st.sampled_from("\n" + ENDERS_ELSEWHERE) | st.characters(codec="utf-8"), max_size=40)
unit_lists = st.lists(
    st.text(
        st.sampled_from(ENDERS_ELSEWHERE) | st.characters(codec="utf-8", exclude_characters="\n"), max_size=12
    )
)
some_bytes = texts.map(str.encode) | st.lists(
    st.sampled_from([BOM, b"\n", b"\r", b"a", b"\xff", b"\xef"])
).map(b"".join)
on_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def units_by_definition(data: bytes) -> list[bytes]:
    """The rule as its sentence says it, written apart from the code under test."""
    data = data[3:] if data[:3] == BOM else data
    parts = data.split(b"\n")
    if parts[-1] == b"":
        parts.pop()
    return [part[:-1] if part[-1:] == b"\r" else part for part in parts]


@given(some_bytes)
def test_units_are_by_definition(data: bytes) -> None:
    assert split_units(data) == units_by_definition(data)
    assert count_units(io.BytesIO(data)) == len(units_by_definition(data))


@given(texts)
def test_text_is_read_by_definition(text: str) -> None:
    data = text.encode()
    assert [unit.encode() for unit in read_units(io.BytesIO(data))] == units_by_definition(data)


@given(some_bytes)
def test_replacing_bad_bytes_keeps_the_count(data: bytes) -> None:
    assert len(list(read_units(io.BytesIO(data), bad_bytes="replace"))) == len(units_by_definition(data))


@given(some_bytes)
def test_offsets_point_at_the_units(data: bytes) -> None:
    for unit in read_raw_units(io.BytesIO(data)):
        assert data[unit.offset :].startswith(unit.data)


@on_files
@given(units=unit_lists)
@pytest.mark.parametrize("name", ["t", "t.gz", "t.xz", "t.zst"])
def test_what_is_written_is_read_back(tmp_path: Path, name: str, units: list[str]) -> None:
    path = tmp_path / name
    assert write_units(path, units) == len(units)
    assert list(read_units(path)) == units
    assert count_units(path) == len(units)


@on_files
@given(first=some_bytes, second=some_bytes)
@pytest.mark.parametrize(
    ("name", "compress"), [("t.gz", gzip.compress), ("t.xz", lzma.compress), ("t.zst", zstandard.compress)]
)
def test_compression_changes_nothing(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes], first: bytes, second: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(compress(first) + compress(second))
    assert [unit.data for unit in read_raw_units(path)] == units_by_definition(first + second)
