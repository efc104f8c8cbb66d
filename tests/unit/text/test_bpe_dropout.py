"""BPE-dropout against the algorithm of its paper, written out plainly, and against its limits."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text import bpe_dropout
from dragoman.text.bpe_dropout import MergeTable
from dragoman.text.subwords import Subwords

SCORES = {"ab": -1.0, "bc": -2.0, "abc": -3.0, "\u2581a": -4.0, "\u2581abc": -5.0, "cd": -6.0}
SPACE = "\u2581"


def table(*whole: str) -> MergeTable:
    return MergeTable(SCORES, whole=whole, space=SPACE)


def plain_segment(word: str, p: float, generator: np.random.Generator) -> tuple[str, ...]:
    """Provilkov et al. 2020, algorithm 1: all possible merges, each dropped with p, the best one done."""
    symbols = list(word)
    while True:
        possible = [
            (-SCORES[merged], k)
            for k in range(len(symbols) - 1)
            if (merged := symbols[k] + symbols[k + 1]) in SCORES and generator.random() >= p
        ]
        if not possible:
            return tuple(symbols)
        _, k = min(possible)
        symbols[k : k + 2] = [symbols[k] + symbols[k + 1]]


def test_no_dropout_merges_best_first() -> None:
    assert table().segment("\u2581abcd", p=0.0, seed=1) == ["\u2581abc", "d"]
    assert table().segment("xbcd", p=0.0, seed=1) == ["x", "bc", "d"]
    assert table().segment("", p=0.0, seed=1) == []


def test_equal_scores_merge_from_the_left() -> None:
    assert MergeTable({"aa": -1.0}, whole=(), space=SPACE).segment("aaaaa", p=0.0, seed=1) == [
        "aa",
        "aa",
        "a",
    ]


def test_full_dropout_gives_characters() -> None:
    assert table().segment("\u2581abcd\u2581ab", p=1.0, seed=1) == list("\u2581abcd\u2581ab")


def test_same_seed_same_cut() -> None:
    text = "\u2581abcd" * 20
    assert table().segment(text, p=0.5, seed=9) == table().segment(text, p=0.5, seed=9)
    assert len({tuple(table().segment(text, p=0.5, seed=k)) for k in range(20)}) > 15


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_distribution_is_that_of_the_paper(p: float) -> None:
    word, rounds, generator = "\u2581abcd", 20_000, np.random.default_rng(0)
    ours = table().segment(word * rounds, p=p, seed=5)
    assert "".join(ours) == word * rounds
    cuts, cut = Counter[tuple[str, ...]](), list[str]()
    for piece in ours:
        cut.append(piece)
        if piece.endswith("d"):
            cuts[tuple(cut)] += 1
            cut = []
    theirs = Counter(plain_segment(word, p, generator) for _ in range(rounds))
    assert set(cuts) <= set(theirs) | {key for key in cuts if cuts[key] < 20}
    for key in theirs:
        assert abs(cuts[key] - theirs[key]) < 5 * (theirs[key] + 10) ** 0.5 + 20


@pytest.fixture(scope="module")
def used() -> MergeTable:
    """A table that has seen words already, many of them cut with other merges left out."""
    made = table("<x>")
    for seed in range(200):
        made.segment("\u2581abcd\u2581abcab\u2581bcd" * 3, p=0.5, seed=seed)
    return made


@given(
    words=st.lists(st.text("abcdx", max_size=40), max_size=20),
    p=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_what_is_remembered_changes_no_cut(used: MergeTable, words: list[str], p: float, seed: int) -> None:
    text = "".join(SPACE + word for word in words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bpe_dropout, "_LONGEST_REMEMBERED", 0)  # every word is worked out from the draws
        want = table("<x>").segment(text, p=p, seed=seed)
    assert used.segment(text, p=p, seed=seed) == want
    assert used.segment(text, p=p, seed=seed) == want


@pytest.mark.parametrize("most", [0, 1, 5])
def test_no_more_is_remembered_than_there_is_room_for(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    want = [table().segment("\u2581abcd\u2581bcab" * 9, p=0.5, seed=seed) for seed in range(20)]
    monkeypatch.setattr(bpe_dropout, "_MOST_REMEMBERED", most)
    full = table()
    assert [full.segment("\u2581abcd\u2581bcab" * 9, p=0.5, seed=seed) for seed in range(20)] == want

    def count(ways: list[bpe_dropout._Way]) -> int:
        return sum(1 + count([*way.branches.values()]) for way in ways)

    assert count([*full._remembered.values()]) == most


def test_pieces_taken_whole_are_never_cut_or_merged() -> None:
    assert table("ab", "<x>").segment("\u2581abc<x>ab", p=1.0, seed=1) == [SPACE, "ab", "c", "<x>", "ab"]
    assert table("a", "abc").segment("abcd", p=0.0, seed=1) == ["abc", "d"]  # the longest


def test_pieces_over_the_start_of_a_word() -> None:
    wide = MergeTable({"a\u2581": -1.0, "a\u2581b": -2.0}, whole=(), space=SPACE)
    assert wide.segment("a\u2581b", p=0.0, seed=1) == ["a\u2581b"]


def test_runs_of_spaces() -> None:
    runs = MergeTable({"\u2581\u2581": -1.0, "\u2581a": -2.0}, whole=(), space=SPACE)
    assert runs.segment("\u2581\u2581\u2581a", p=0.0, seed=1) == ["\u2581\u2581", "\u2581a"]


def test_long_word_without_spaces_ends_in_time() -> None:
    start = time.perf_counter()
    pieces = table().segment("abcd" * 25_000, p=0.1, seed=1)
    assert "".join(pieces) == "abcd" * 25_000
    assert time.perf_counter() - start < 10


def test_sentences_in_a_second() -> None:
    text = "twelve words of a plain sentence which is neither short nor very long"
    subwords = Subwords.train([text, "another plain sentence, neither long nor short"] * 9, vocab_size=400)
    subwords.encode_with_dropout(text, 0.1, 0)
    start = time.perf_counter()
    for seed in range(300):
        subwords.encode_with_dropout(text, 0.1, seed)
    assert 300 / (time.perf_counter() - start) > 1000  # thrice that on an idle machine and more
