"""What normalization changes, and what it must leave alone."""

from __future__ import annotations

import unicodedata

import pytest

from dragoman.text.normalize import is_blank, normalize


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("a\nb", "a b"),
        ("a\r\nb", "a  b"),
        ("a\u2581b", "a b"),
        ("\ud800x\udfff", "\ufffdx\ufffd"),
        ("\ud83d\ude00", "\ufffd\ufffd"),  # a pair of surrogates is two surrogates in a string
    ],
)
def test_what_is_changed(text: str, normal: str) -> None:
    assert normalize(text) == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "  a  b ",
        "\t\v\f\x1c\x1f\x85\u2028\u2029",
        "\0",
        "\ufeff",
        "\u200b",
        "\ufb01",
        "A\u030a",
        "\u00c5",
    ],
)
def test_what_is_kept(text: str) -> None:
    assert normalize(text) == text


def test_every_other_code_point_is_kept() -> None:
    changed = [c for c in map(chr, range(0x110000)) if normalize(c) != c]
    assert set(changed) == {"\n", "\r", "\u2581", *map(chr, range(0xD800, 0xE000))}


def test_blank_is_unicode_white_space() -> None:
    blank = {c for c in map(chr, range(0x110000)) if is_blank(c)}
    separators = {c for c in map(chr, range(0x110000)) if unicodedata.category(c) in ("Zs", "Zl", "Zp")}
    assert blank == separators | set("\t\n\v\f\r\x85")


def test_blank_units() -> None:
    assert is_blank("")
    assert is_blank(" \u3000\t")
    assert not is_blank(" x ")
    assert not is_blank("\u200b")  # zero width space is not White_Space
    assert not is_blank("\x1c")
