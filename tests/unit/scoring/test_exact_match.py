"""Exact match."""

from __future__ import annotations

import pytest

from dragoman.errors import DataError
from dragoman.scoring.exact_match import exact_match


def test_share_of_identical_units() -> None:
    score = exact_match(["a", "b", "c", ""], ["a", "B", "c ", ""])
    assert score.value == 50.0
    assert score.details == {"matches": 2}
    assert score.format() == ("exact match 50.00  nrefs:1|case:mixed|space:yes|measure:dragoman exact match")
    assert score.counts() == "segments 4, blank hypotheses 1, blank references 1"


def test_identical_sides_give_100_and_disjoint_ones_0() -> None:
    assert exact_match(["a", ""], ["a", ""]).value == 100.0
    assert exact_match(["", ""], ["a", "b"]).value == 0.0


def test_any_reference_will_do() -> None:
    score = exact_match(["a", "b", "c"], [["a", "x", "x"], ["y", "b", "y"]])
    assert score.details == {"matches": 2}
    assert score.signature.startswith("nrefs:2|")


def test_a_carriage_return_is_content() -> None:
    assert exact_match(["a\rb"], ["a b"]).value == 0.0


def test_unequal_counts_are_refused() -> None:
    with pytest.raises(DataError, match="has 2 units and references has 1"):
        exact_match(["a", "b"], ["a"])
