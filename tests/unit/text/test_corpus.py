"""Parallel text: pairs, counts, TSV, standard input, bad bytes, and the development set split off."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dragoman.errors import ConfigError, DataError
from dragoman.text.corpus import Pair, ParallelText, default_dev_size, pair_key, split_dev
from dragoman.text.skips import SkipLog

Write = Callable[[str, bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, data: bytes) -> Path:
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return write_file


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def set_stdin(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    return set_stdin


def test_pairs_of_two_files(write: Write) -> None:
    corpus = ParallelText(write("a.en", "a\u2028b\nc".encode()), write("a.de", b"A\nB\n"))
    assert corpus.count() == 2
    assert list(corpus.pairs()) == [Pair(0, "a\u2028b", "A"), Pair(1, "c", "B")]
    assert list(corpus.pairs()) == list(corpus.pairs())  # as often as wanted


def test_unequal_counts_refuse_before_any_pair(write: Write) -> None:
    corpus = ParallelText(write("a.en", b"1\n2\n3\n4\n5\n"), write("b.de", b"1\n2\n3\n4\n"))
    for attempt in (corpus.count, corpus.pairs):
        with pytest.raises(DataError) as caught:
            attempt()
        message = str(caught.value)
        assert "a.en has 5" in message
        assert "b.de has 4" in message


def test_file_that_shrinks_while_it_is_read_is_refused(write: Write) -> None:
    source, target = write("a.en", b"1\n2\n"), write("a.de", b"1\n2\n")
    corpus = ParallelText(source, target)
    assert corpus.count() == 2
    target.write_bytes(b"1\n")
    with pytest.raises(DataError, match=r"has 2.*has 1"):
        list(corpus.pairs())


def test_several_files_are_read_in_order(write: Write) -> None:
    corpus = ParallelText(
        [write("a.en", b"1\n2\n"), write("b.en", b"3\n")], [write("a.de", b"x\ny\n"), write("b.de", b"z\n")]
    )
    assert [(p.index, p.source, p.target) for p in corpus.pairs()] == [
        (0, "1", "x"),
        (1, "2", "y"),
        (2, "3", "z"),
    ]
    assert corpus.where(1).endswith("a.de, line 2")
    assert corpus.where(2).endswith("b.de, line 1")
    with pytest.raises(IndexError):
        corpus.where(3)


def test_numbers_of_files_must_agree(write: Write) -> None:
    with pytest.raises(ConfigError, match="2 source and 1 target"):
        ParallelText([write("a", b""), write("b", b"")], write("c", b""))
    with pytest.raises(ConfigError, match="at least one"):
        ParallelText([], [])


def test_tsv(write: Write) -> None:
    path = write("a.tsv", b"1\ten\tde\r\n2\tEN\tDE\textra\n")
    corpus = ParallelText.tsv(path, source_column=1, target_column=2)
    assert [(p.source, p.target) for p in corpus.pairs()] == [("en", "de"), ("EN", "DE")]
    assert corpus.where(1).endswith("a.tsv, line 2")


def test_tsv_row_without_the_column(write: Write) -> None:
    corpus = ParallelText.tsv(write("a.tsv", b"a\tb\nonly one\n"))
    with pytest.raises(DataError) as caught:
        list(corpus.pairs())
    assert "a.tsv, line 2" in str(caught.value)
    assert "has 1 tab-separated column(s), 2 are needed" in str(caught.value)


def test_tsv_row_with_nothing_on_it_is_a_blank_pair(write: Write) -> None:
    assert list(ParallelText.tsv(write("a.tsv", b"a\tb\n\n")).pairs()) == [Pair(0, "a", "b"), Pair(1, "", "")]


def test_tsv_bad_byte_offset_is_of_the_column(write: Write) -> None:
    corpus = ParallelText.tsv(write("a.tsv", b"ab\tc\xff\n"))
    with pytest.raises(DataError, match="column byte 2, byte offset 4"):
        list(corpus.pairs())


def test_tsv_bad_byte_in_another_column_does_not_matter(write: Write) -> None:
    assert list(ParallelText.tsv(write("a.tsv", b"a\tb\t\xff\n")).pairs()) == [Pair(0, "a", "b")]


def test_negative_columns_are_refused(write: Write) -> None:
    with pytest.raises(ConfigError, match="columns"):
        ParallelText.tsv(write("a.tsv", b""), source_column=-1)


def test_bad_bytes_refused_replaced_or_skipped(write: Write) -> None:
    corpus = ParallelText(write("a.en", b"1\n\xff\n3\n4\n"), write("a.de", b"1\n2\n\xfe\n4\n"))
    with pytest.raises(DataError, match=r"a\.en, line 2"):
        list(corpus.pairs())
    assert [p.source for p in corpus.pairs(bad_bytes="replace")] == ["1", "\ufffd", "3", "4"]
    skips = SkipLog()
    assert [p.index for p in corpus.pairs(bad_bytes="skip", skips=skips)] == [0, 3]
    assert skips.report().lines() == ["2 left out, not UTF-8: 2, 3"]
    with pytest.raises(ConfigError, match="ignore"):
        corpus.pairs(bad_bytes="ignore")  # type: ignore[arg-type]


def test_sides_can_be_read_again(write: Write) -> None:
    corpus = ParallelText(write("a.en", b"1\n2\n\xff\n"), write("a.de", b"x\ny\nz\n"))
    side = corpus.side("target", bad_bytes="skip")
    assert list(side) == list(side) == ["x", "y"]
    assert list(corpus.side("source", bad_bytes="replace")) == ["1", "2", "\ufffd"]


def test_standard_input_as_tsv_is_read_twice(stdin: Callable[[bytes], None]) -> None:
    stdin(b"a\tb\nc\td\n")
    corpus = ParallelText.tsv("-")
    assert corpus.count() == 2
    assert [p.target for p in corpus.pairs()] == [p.target for p in corpus.pairs()] == ["b", "d"]
    assert corpus.where(0) == "standard input, line 1"


def test_standard_input_as_one_side(write: Write, stdin: Callable[[bytes], None]) -> None:
    stdin(b"a\nb\n")
    with pytest.raises(DataError, match="standard input has 2"):
        ParallelText("-", write("a.de", b"x\n")).count()


def test_standard_input_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="more than once"):
        ParallelText("-", "-")
    with pytest.raises(ConfigError, match="more than once"):
        ParallelText.tsv(["-", "-"])


def test_spooled_input_leaves_no_file(stdin: Callable[[bytes], None]) -> None:
    stdin(b"a\tb\n")
    corpus = ParallelText.tsv("-")
    (part,) = corpus._parts
    name = os.fspath(part.source)
    assert os.path.exists(name)
    del corpus, part
    assert not os.path.exists(name)


def test_pipes_are_read_once_and_given_twice(tmp_path: Path, write: Write) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"a\nb\n",), daemon=True)
    writer.start()
    corpus = ParallelText(pipe, write("a.de", b"x\ny\n"))
    writer.join()
    assert [p.source for p in corpus.pairs()] == [p.source for p in corpus.pairs()] == ["a", "b"]
    assert corpus.where(1) == f"{pipe}, {tmp_path / 'a.de'}, line 2"


def test_missing_file_is_named(tmp_path: Path, write: Write) -> None:
    with pytest.raises(DataError, match=r"absent\.de"):
        ParallelText(write("a.en", b""), tmp_path / "absent.de").count()


def test_default_dev_size() -> None:
    assert [default_dev_size(n) for n in (1, 99, 1000, 100_000, 10_000_000)] == [1, 1, 10, 1000, 2000]


def test_split_dev_is_fixed_by_its_arguments() -> None:
    first = split_dev(1000, seed=1)
    assert first.tolist() == [122, 158, 181, 380, 454, 546, 597, 691, 757, 990]  # must never change
    assert not np.array_equal(first, split_dev(1000, seed=2))


def test_split_dev_is_a_set_of_that_size() -> None:
    for dev_size in (1, 2, 499):
        indices = split_dev(500, seed=3, dev_size=dev_size)
        assert len(set(indices.tolist())) == dev_size
        assert indices.tolist() == sorted(indices.tolist())
        assert 0 <= indices.min() <= indices.max() < 500


@pytest.mark.parametrize("block", [1, 3, 99, 100, 101])
@pytest.mark.parametrize("dev_size", [1, 7, 99])
def test_split_dev_does_not_depend_on_how_many_pairs_are_looked_at_together(monkeypatch, block, dev_size):
    wanted = split_dev(100, seed=4, dev_size=dev_size)
    monkeypatch.setattr("dragoman.text.corpus._BLOCK_PAIRS", block)
    assert split_dev(100, seed=4, dev_size=dev_size).tolist() == wanted.tolist()


def test_split_dev_is_even_over_the_corpus() -> None:
    tenths = np.bincount(split_dev(100_000, seed=4, dev_size=10_000) // 10_000, minlength=10)
    assert tenths.min() > 850
    assert tenths.max() < 1150


@pytest.mark.parametrize(("pair_count", "dev_size"), [(0, None), (1, None), (5, 5), (5, 0), (5, -1)])
def test_split_dev_impossible(pair_count: int, dev_size: int | None) -> None:
    with pytest.raises(ConfigError, match="split off"):
        split_dev(pair_count, seed=1, dev_size=dev_size)


def test_pair_key_tells_the_sides_apart() -> None:
    keys = {
        pair_key("a", "b"),
        pair_key("b", "a"),
        pair_key("ab", ""),
        pair_key("", "ab"),
        pair_key("\ud800", ""),
    }
    assert len(keys) == 5
    assert pair_key("a", "b") == pair_key("a", "b")


def test_real_files_of_unequal_length() -> None:
    root = os.environ.get("DRAGOMAN_DATA")
    if not root:
        pytest.skip("DRAGOMAN_DATA is not set")
    messy = Path(root, "messy")
    with pytest.raises(DataError, match=r"3000.*25"):
        ParallelText(messy / "17-unbalanced-3000-vs-25.en", messy / "17-unbalanced-3000-vs-25.fr").pairs()
