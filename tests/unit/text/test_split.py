"""Where a text that is too long is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.split import split_ids

SENTENCE_ENDS = (".", "!", "?", "\u3002", "\uff01", "\uff1f", "\u2026", ":", ";")


def cut(text: str, longest: int) -> list[str]:
    """The runs of a text whose pieces are written with a blank between; _ begins a word."""
    pieces = [piece.replace("_", "\u2581") for piece in text.split(" ")]
    runs = split_ids(range(len(pieces)), pieces, longest=longest)
    return [" ".join(pieces[k].replace("\u2581", "_") for k in run) for run in runs]


def test_what_fits_is_left_whole():
    assert cut("_a b _c .", 4) == ["_a b _c ."]
    assert split_ids([], [], longest=1) == [[]]


def test_after_the_last_sentence_end_in_the_second_half():
    assert cut("_a . _b . _c _d _e _f", 6) == ["_a . _b .", "_c _d _e _f"]
    assert cut("_a _b _c. _d. _e _f _g", 6) == ["_a _b _c. _d.", "_e _f _g"]


def test_a_sentence_end_in_the_first_half_is_too_early():
    assert cut("_a . _b _c _d _e _f _g", 6) == ["_a . _b _c _d _e", "_f _g"]


def test_a_full_stop_inside_a_word_is_no_sentence_end():
    assert cut("_a _b _3 . 1 4 _c _d", 6) == ["_a _b _3 . 1 4", "_c _d"]
    assert cut("_a _b _c 3. 1 _d _e", 6) == ["_a _b _c 3. 1 _d", "_e"]


def test_else_before_the_last_word():
    assert cut("_a _b c _d e f g", 6) == ["_a _b c", "_d e f g"]


def test_else_where_it_is_full():
    assert cut("_a b c d e f g h", 3) == ["_a b c", "d e f", "g h"]
    assert cut("_a b c", 1) == ["_a", "b", "c"]


@pytest.mark.parametrize("mark", SENTENCE_ENDS)
def test_marks_of_other_scripts_end_sentences_too(mark):
    assert cut(f"_a _b _c {mark} _d _e _f", 6) == [f"_a _b _c {mark}", "_d _e _f"]


@given(
    pieces=st.lists(st.sampled_from(["\u2581a", "b", ".", "\u2581.", "\u2581", "c."]), max_size=60),
    longest=st.integers(1, 20),
)
def test_runs_joined_are_the_text_and_none_is_too_long(pieces, longest):
    ids = [7 * k for k in range(len(pieces))]
    runs = split_ids(ids, pieces, longest=longest)
    assert [k for run in runs for k in run] == ids
    assert all(0 < len(run) <= longest for run in runs) or pieces == []
    assert (len(runs) == 1) == (len(pieces) <= longest)
    for run in runs[:-1]:
        end = ids.index(run[-1]) + 1
        assert len(run) >= (longest + 1) // 2, "never less than half of what fits"
        if len(run) < longest:
            assert pieces[end].startswith("\u2581"), "a run that is not full ends before a word"


@pytest.mark.parametrize(("ids", "longest"), [([1], 0), ([1, 2], 3)])
def test_what_it_cannot_be_asked(ids, longest):
    with pytest.raises(AssertionError):
        split_ids(ids, ["a"], longest=longest)
