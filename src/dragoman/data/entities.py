"""HTML and XML entities in text: counted always, turned into characters when asked.

Paper: none (infrastructure)

A model trained on `&apos;` writes `&apos;`, so `prepare` says how many units hold an entity.
"""

from __future__ import annotations

import html
import re
import unicodedata
from typing import Literal

Entities = Literal["keep", "unescape"]

_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});")


def has_entity(text: str) -> bool:
    """Whether `text` holds an entity that stands for a character, closed by its semicolon."""
    return "&" in text and any(_character(match) != match[0] for match in _ENTITY.finditer(text))


def as_chosen(text: str, entities: Entities) -> str:
    """The text as it is, or unescaped, as `entities` says."""
    return unescape(text) if entities == "unescape" else text


def unescape(text: str) -> str:
    """Put the characters in the place of their entities, once: `&amp;lt;` becomes `&lt;`.

    Kept as they are: names nobody defined, entities without semicolon, and those for control characters
    (a line feed would make two lines of one) or for no character at all.
    """
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(match: re.Match[str]) -> str:
    text = html.unescape(match[0])
    return match[0] if not text or any(map(_is_refused, text)) else text


def _is_refused(character: str) -> bool:
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
