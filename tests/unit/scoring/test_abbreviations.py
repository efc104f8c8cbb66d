"""The words that keep their full stop."""

from __future__ import annotations

import pytest

from dragoman.scoring.abbreviations import abbreviations, has_own_list


@pytest.mark.parametrize("word", ["1", "99", "A", "z", "IV", "xviii", "XX", "bzw", "z.B", "Dr", "Nr"])
def test_german(word: str) -> None:
    assert word in abbreviations("de").always


@pytest.mark.parametrize("word", ["0", "100", "165", "XXI", "Haus", "Aa"])
def test_not_german(word: str) -> None:
    assert word not in abbreviations("de").always


def test_english_numbers_keep_the_stop_before_digits_only() -> None:
    english = abbreviations("en")
    assert "No" in english.before_digits
    assert "No" not in english.always
    assert {"Mr", "Prof", "A"} <= english.always
    assert "a" not in english.always


def test_months_are_not_in_the_english_list() -> None:
    # As in the published newstest2014 tokens: "Jan ." and "Nov .".
    assert not {"Jan", "Nov"} & abbreviations("en").always


def test_french_letters_but_the_word_a() -> None:
    french = abbreviations("fr").always
    assert {"b", "z", "A", "etc", "art"} <= french
    assert "a" not in french


def test_languages_without_a_list_have_english_ones() -> None:
    assert abbreviations("xx") == abbreviations("en")
    assert not has_own_list("xx")
    assert has_own_list("de")
