"""Score and the checks all measures share."""

from __future__ import annotations

import json

import pytest

from dragoman.errors import DataError
from dragoman.scoring.score import Score, check_segments

SCORE = Score(
    name="BLEU",
    value=28.0512,
    signature="nrefs:1|case:mixed",
    details={"precisions": [50.0, 25.0], "tokenizer": "13a"},
    segments=3,
    blank_hypotheses=1,
    blank_references=0,
    notices=("BLEU tokenizer: 13a",),
)


def test_format_is_one_line_with_the_signature() -> None:
    assert SCORE.format() == "BLEU 28.05  nrefs:1|case:mixed"


def test_counts_name_every_count() -> None:
    assert SCORE.counts() == "segments 3, blank hypotheses 1, blank references 0"


def test_as_dict_survives_json() -> None:
    assert json.loads(json.dumps(SCORE.as_dict())) == SCORE.as_dict()
    assert SCORE.as_dict()["notices"] == ["BLEU tokenizer: 13a"]


def test_scores_are_frozen() -> None:
    with pytest.raises(AttributeError):
        SCORE.value = 100.0  # type: ignore[misc]


def test_unequal_counts_name_both_counts_and_files() -> None:
    with pytest.raises(DataError) as caught:
        check_segments(["a"] * 3, ["b"] * 4, hypothesis_name="out.de", reference_name="ref.de")
    assert "out.de has 3 units and ref.de has 4" in str(caught.value)
    assert caught.value.exit_code != 0


def test_unequal_counts_without_names() -> None:
    with pytest.raises(DataError, match="hypotheses has 2 units and references has 1"):
        check_segments(["a", "b"], ["c"])


def test_the_short_one_of_several_references_is_named() -> None:
    with pytest.raises(DataError, match=r"references \(translation 2\) has 1"):
        check_segments(["a", "b"], [["c", "d"], ["e"]])


@pytest.mark.parametrize("references", [[], [[]]])
def test_nothing_to_score_is_refused(references: list[str]) -> None:
    with pytest.raises(DataError, match="nothing to score"):
        check_segments([], references)


def test_hypotheses_without_references_are_refused() -> None:
    with pytest.raises(DataError, match="has 1 units and references has 0"):
        check_segments(["a"], [])


def test_a_single_string_is_not_a_list_of_characters() -> None:
    with pytest.raises(DataError, match="hypotheses is one string"):
        check_segments("abc", ["a", "b", "c"])
    with pytest.raises(DataError, match="references is one string"):
        check_segments(["a", "b", "c"], "abc")


def test_one_list_and_one_list_of_lists_are_the_same() -> None:
    assert check_segments(["a", "b"], ["c", "d"]) == check_segments(["a", "b"], [["c", "d"]])


def test_blanks_are_counted_on_both_sides_over_all_references() -> None:
    segments = check_segments(["", " \t", "a"], [["", "b", "c"], ["\u3000", "\r", "d"]])
    assert len(segments) == 3
    assert segments.blank_hypotheses == 2
    assert segments.blank_references == 3
