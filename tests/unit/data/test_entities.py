"""Entities: what counts as one, and what becomes of it."""

from __future__ import annotations

import pytest

from dragoman.data.entities import has_entity, unescape


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("it&apos;s", "it's"),
        ("&quot;no&quot;", '"no"'),
        ("a &lt; b &amp; c", "a < b & c"),
        ("&#228;&#xE4;&auml;", "äää"),
        ("&amp;lt;", "&lt;"),
    ],
)
def test_entities_are_found_and_put_into_characters_once(text: str, plain: str) -> None:
    assert has_entity(text)
    assert unescape(text) == plain


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AT&T",
        "R&D; more",
        "a & b;",
        "&copy",
        "&nosuchthing;",
        "&#10;",
        "&#13;",
        "&#0;",
        "&#xD800;",
        "&#8232;",
        "&#xFFFE;",
        "&#9999999;",
        "&;",
        "&#;",
    ],
)
def test_what_is_no_entity_or_would_break_a_line_stays(text: str) -> None:
    assert not has_entity(text)
    assert unescape(text) == text
