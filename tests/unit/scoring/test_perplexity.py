"""Perplexities by hand, in their three units.

Paper: 6.2
"""

from __future__ import annotations

import math

import pytest

from dragoman.scoring.perplexity import masked_scores, perplexities

TEXTS = ["a b", "", "\u00e9 cd e"]


def test_by_hand():
    """7 tokens; 2+1, 0+1 and 3+1 words; 3+1, 0+1 and 7+1 bytes."""
    found = perplexities(TEXTS, [-2.0, -1.0, -3.0], 7, vocabulary="9 of SHA-256 abc")
    values = {score.name: score.value for score in found}
    assert values == {
        "perplexity a subword": pytest.approx(math.exp(6 / 7)),
        "perplexity a word": pytest.approx(math.exp(6 / 8)),
        "bits a byte": pytest.approx(6 / 13 / math.log(2)),
    }
    assert [score.details["units"] for score in found] == [7, 8, 13]
    assert found[0].signature == "subwords:9 of SHA-256 abc|end:counted"
    assert found[0].format() == "perplexity a subword 2.36  subwords:9 of SHA-256 abc|end:counted"
    assert [score.blank_references for score in found] == [1, 1, 1]


def test_a_model_that_finds_all_of_it_impossible_has_a_number_still():
    [subword, *_] = perplexities(["a"], [-1e6], 2, vocabulary="x")
    assert math.isfinite(subword.value)


def test_masked_by_hand():
    perplexity, guessed = masked_scores(TEXTS, -4.0, 3, 5, vocabulary="x")
    assert perplexity.value == pytest.approx(math.exp(4 / 5))
    assert guessed.value == 60.0
    assert "one at a time" in guessed.signature


def test_masked_of_nothing_but_blank_lines():
    assert [score.value for score in masked_scores([""], 0.0, 0, 0, vocabulary="x")] == [1.0, 0.0]
