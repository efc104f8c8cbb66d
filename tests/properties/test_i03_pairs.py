"""I03: pair k is line k and line k, or is in the skip report; unequal counts refuse before any pair."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.text.corpus import Pair, ParallelText, split_dev
from dragoman.text.lines import write_units
from dragoman.text.skips import SkipLog

units = st.text(
    st.sampled_from("a\r\v\x1c\x85\u2028\0") | st.characters(codec="utf-8", exclude_characters="\n"),
    max_size=8,
)
pair_lists = st.lists(st.tuples(units, units), max_size=12)
bad_units = st.sampled_from([b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80"])
on_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@on_files
@given(pairs=pair_lists)
def test_pairs_are_the_lines(tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    write_units(tmp_path / "a.en", [source for source, _ in pairs])
    write_units(tmp_path / "a.de", [target for _, target in pairs])
    corpus = ParallelText(tmp_path / "a.en", tmp_path / "a.de")
    assert corpus.count() == len(pairs)
    assert list(corpus.pairs()) == [Pair(k, *pair) for k, pair in enumerate(pairs)]
    assert list(corpus.side("source")) == [source for source, _ in pairs]


@on_files
@given(pairs=pair_lists, position=st.integers(0, 12), extra=units, on_source=st.booleans())
def test_a_line_more_on_one_side_refuses(
    tmp_path: Path, pairs: list[tuple[str, str]], position: int, extra: str, on_source: bool
) -> None:
    sides = [[source for source, _ in pairs], [target for _, target in pairs]]
    sides[0 if on_source else 1].insert(position, extra)
    write_units(tmp_path / "a.en", sides[0])
    write_units(tmp_path / "a.de", sides[1])
    with pytest.raises(DataError) as caught:
        ParallelText(tmp_path / "a.en", tmp_path / "a.de").pairs()  # not even the first pair
    assert f"a.en has {len(sides[0])}" in str(caught.value)
    assert f"a.de has {len(sides[1])}" in str(caught.value)


@on_files
@given(st.lists(st.tuples(units.map(str.encode) | bad_units, units.map(str.encode) | bad_units), max_size=12))
def test_each_pair_is_given_or_reported(tmp_path: Path, pairs: list[tuple[bytes, bytes]]) -> None:
    pairs = [(b"first", b"first"), *pairs]  # so that no byte-order mark stands first
    for name, column in (("a.en", 0), ("a.de", 1)):
        (tmp_path / name).write_bytes(b"".join(pair[column] + b"\r\n" for pair in pairs))
    skips = SkipLog(numbers_kept=100)
    given_pairs = list(
        ParallelText(tmp_path / "a.en", tmp_path / "a.de").pairs(bad_bytes="skip", skips=skips)
    )
    skipped = {number - 1 for entry in skips.report().entries for number in entry.numbers}
    assert {pair.index for pair in given_pairs} | skipped == set(range(len(pairs)))
    assert not {pair.index for pair in given_pairs} & skipped
    for pair in given_pairs:
        assert (pair.source.encode(), pair.target.encode()) == pairs[pair.index]


@on_files
@given(pairs=pair_lists)
def test_tsv_gives_the_same_pairs(tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    pairs = [(source.replace("\t", " "), target.replace("\t", " ")) for source, target in pairs]
    write_units(tmp_path / "a.tsv", [f"{target}\tx\t{source}" for source, target in pairs])
    corpus = ParallelText.tsv(tmp_path / "a.tsv", source_column=2, target_column=0)
    assert [(pair.source, pair.target) for pair in corpus.pairs()] == pairs


@on_files
@given(st.lists(pair_lists, min_size=1, max_size=4))
def test_several_files_count_through(tmp_path: Path, parts: list[list[tuple[str, str]]]) -> None:
    for k, part in enumerate(parts):
        write_units(tmp_path / f"{k}.en", [source for source, _ in part])
        write_units(tmp_path / f"{k}.de", [target for _, target in part])
    names = range(len(parts))
    corpus = ParallelText([tmp_path / f"{k}.en" for k in names], [tmp_path / f"{k}.de" for k in names])
    flat = [pair for part in parts for pair in part]
    assert list(corpus.pairs()) == [Pair(k, *pair) for k, pair in enumerate(flat)]
    places = [f"{k}.de, line {line + 1}" for k, part in enumerate(parts) for line in range(len(part))]
    assert [corpus.where(index).endswith(place) for index, place in enumerate(places)] == [True] * len(flat)


@given(st.integers(2, 3000), st.integers(0, 2**64), st.data())
def test_dev_split_is_a_part(pair_count: int, seed: int, data: st.DataObject) -> None:
    dev_size = data.draw(st.none() | st.integers(1, pair_count - 1))
    chosen = split_dev(pair_count, seed=seed, dev_size=dev_size).tolist()
    assert chosen == sorted(set(chosen))
    assert set(chosen) < set(range(pair_count))
    assert dev_size is None or len(chosen) == dev_size
    assert chosen == split_dev(pair_count, seed=seed, dev_size=dev_size).tolist()
