"""chrF by sacreBLEU."""

from __future__ import annotations

import pytest
import sacrebleu

from dragoman.errors import DataError
from dragoman.scoring.chrf import chrf

HYPOTHESES = ["the cat sat\rhere", "no\u2028break here", "", "last line"]
REFERENCES = ["the cat sat here", "no break here", "empty one", ""]


def test_blank_lines_and_separators_are_content() -> None:
    score = chrf(HYPOTHESES, REFERENCES)
    assert score.name == "chrF2"
    assert score.value == pytest.approx(81.6482, abs=0.01)
    assert score.signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{sacrebleu.__version__}"
    assert score.counts() == "segments 4, blank hypotheses 1, blank references 1"


def test_identical_sides_give_100() -> None:
    assert chrf(REFERENCES, REFERENCES).value == pytest.approx(100.0)


def test_empty_hypotheses_give_0() -> None:
    assert chrf([""] * 4, REFERENCES).value == 0.0


def test_by_hand() -> None:
    # "ab" against "ac": one of two letters on both sides, no common pair. Orders 3 to 6 do not occur and are
    # left out, so that precision = recall = (1/2 + 0) / 2.
    assert chrf(["ab"], ["ac"]).value == pytest.approx(25.0)


def test_recall_weighs_more_than_precision() -> None:
    assert chrf(["abcd"], ["ab"]).value > chrf(["ab"], ["abcd"]).value


def test_word_order_makes_chrf_plus_plus() -> None:
    score = chrf(["a cat here"], ["a cat there"], word_order=2)
    assert score.name == "chrF2++"
    assert "nw:2" in score.signature
    assert score.details == {"char_order": 6, "word_order": 2, "beta": 2}


def test_lowercase() -> None:
    assert chrf(["ABC"], ["abc"], lowercase=True).value == pytest.approx(100.0)
    assert chrf(["ABC"], ["abc"]).value == 0.0


def test_several_references_take_the_best_of_each_segment() -> None:
    score = chrf(["abc", "xyz"], [["abc", "abc"], ["xyz", "xyz"]])
    assert score.value == pytest.approx(100.0)
    assert score.signature.startswith("nrefs:2|")


def test_unequal_counts_are_refused() -> None:
    with pytest.raises(DataError, match="has 1 units and references has 4"):
        chrf(["a"], REFERENCES)
