"""Moses tokens in Python: the rules of replace-unicode-punctuation and of the Moses tokenizer.

Paper: 6.1
Silent: which tokenizer made Table 2's BLEU. The authors' own script uses these two, then splits compounds
(paper_bleu.py). An apostrophe at either end of a line is split off, as in published newstest2014 tokens.

Written from the rules, not from the scripts. English, French and Italian have rules of their own for
apostrophes; all others, also Finnish, Swedish and those written without spaces, go by the general rules.
"""

from __future__ import annotations

import regex  # type: ignore[import-untyped]

from dragoman.scoring.abbreviations import Abbreviations, abbreviations

# Perl's \s on decoded text. Python's also takes the four separators U+001C to U+001F, which Moses deletes.
_SPACE = r"[\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_SPACES = regex.compile(f"{_SPACE}+")
_CONTROLS = regex.compile(r"[\x00-\x1f]")
_SYMBOL = regex.compile(r"([^\p{Alphabetic}\p{Nd} .'`,\-])")
_DOTS = regex.compile(r"\.{2,}")
_COMMA_AFTER_OTHER = regex.compile(r"([^\p{N}]),")
_COMMA_BEFORE_OTHER = regex.compile(r",([^\p{N}])")
_COMMA_AT_END = regex.compile(r"(\p{N}), *$")
_FULL_STOP_AND_QUOTE_AT_END = regex.compile(r"\.' ?$")
_LOWER = regex.compile(r"\p{Lowercase}")
_LETTER = regex.compile(r"\p{Alphabetic}")
_DIGIT = regex.compile(r"[0-9]")

_ENGLISH_APOSTROPHES = (
    (regex.compile(r"(\P{Alphabetic})'(\P{Alphabetic})"), r"\1 ' \2"),
    (regex.compile(r"([^\p{Alphabetic}\p{N}])'(\p{Alphabetic})"), r"\1 ' \2"),
    (regex.compile(r"(\p{Alphabetic})'(\P{Alphabetic})"), r"\1 ' \2"),
    (regex.compile(r"(\p{Alphabetic})'(\p{Alphabetic})"), r"\1 '\2"),
    (regex.compile(r"(\p{N})'(s)"), r"\1 '\2"),
)
_FRENCH_APOSTROPHES = (
    (regex.compile(r"(\P{Alphabetic})'(\P{Alphabetic})"), r"\1 ' \2"),
    (regex.compile(r"(\P{Alphabetic})'(\p{Alphabetic})"), r"\1 ' \2"),
    (regex.compile(r"(\p{Alphabetic})'(\P{Alphabetic})"), r"\1 ' \2"),
    (regex.compile(r"(\p{Alphabetic})'(\p{Alphabetic})"), r"\1' \2"),
)
_OTHER_APOSTROPHES = ((regex.compile("'"), " ' "),)

_ESCAPES = str.maketrans(
    {
        "&": "&amp;",
        "|": "&#124;",
        "<": "&lt;",
        ">": "&gt;",
        "'": "&apos;",
        '"': "&quot;",
        "[": "&#91;",
        "]": "&#93;",
    }
)

# Full-width forms of ASCII stand this far above it.
_FULL_WIDTH = 0xFEE0
_FULL_WIDTH_STOP = regex.compile(rf"[\u3002\uff0e]{_SPACE}*")
_PUNCTUATION = str.maketrans(
    {
        **{chr(ord(mark) + _FULL_WIDTH): mark for mark in ",:?!;()~%0123456789"},
        **dict.fromkeys("”“《》」「", '"'),
        **dict(zip("、━【】〈〉", ",-[]<>", strict=True)),
        "\u2236": ":",
        "\u2019": "'",
        "…": "...",
    }
)


def replace_unicode_punctuation(text: str) -> str:
    """Put plain ASCII marks and digits for typographic and full-width ones.

    Only those of the Moses script: the low German opening quote and the en and em dashes stay.

    Args:
        text: one unit.

    Returns:
        The unit with those characters replaced.
    """
    return str(_FULL_WIDTH_STOP.sub(". ", text)).translate(_PUNCTUATION)


def tokenize(text: str, *, language: str) -> str:
    """Split a unit into Moses tokens, with the XML characters escaped (`tokenizer.perl -l LANGUAGE`).

    Args:
        text: one unit. A CR, a tab or a line separator inside it counts as a space.
        language: the two-letter code of the text's language.

    Returns:
        The tokens with one space between each two; empty for a blank unit.
    """
    # The spaces around the line let rules that look at a neighbor work at both ends.
    text = _CONTROLS.sub("", _SPACES.sub(" ", f" {text} "))
    text = _split_commas(_mark_dots(_SYMBOL.sub(r" \1 ", text)))
    for pattern, replacement in _apostrophe_rules(language):
        text = pattern.sub(replacement, text)
    text = " ".join(_split_full_stops(text.split(), abbreviations(language)))
    text = _FULL_STOP_AND_QUOTE_AT_END.sub(" . '", text)
    return _restore_dots(text).translate(_ESCAPES)


def _apostrophe_rules(language: str) -> tuple[tuple[regex.Pattern[str], str], ...]:
    """Return the rules of a language: it's -> it 's in English, l'eau -> l' eau in French and Italian."""
    if language == "en":
        return _ENGLISH_APOSTROPHES
    return _FRENCH_APOSTROPHES if language in ("fr", "it") else _OTHER_APOSTROPHES


def _split_commas(text: str) -> str:
    """Set commas apart, save between two digits (5,300)."""
    text = _COMMA_AFTER_OTHER.sub(r"\1 , ", text)
    text = _COMMA_BEFORE_OTHER.sub(r" , \1", text)
    return str(_COMMA_AT_END.sub(r"\1 , ", text))


def _mark_dots(text: str) -> str:
    """Make a token of a run of two or more full stops, in a form no later rule touches."""
    return str(_DOTS.sub(lambda run: " " + "\x00" * len(run.group()) + " ", text))


def _restore_dots(text: str) -> str:
    """Undo the marks of `_mark_dots`; NUL is free for it, since controls are deleted first."""
    return text.replace("\x00", ".")


def _split_full_stops(words: list[str], known: Abbreviations) -> list[str]:
    """Set a word's final full stop apart, unless it belongs to the word."""
    following = [*words, ""][1:]
    return [
        f"{word[:-1]} ." if _ends_sentence(word, after, known) else word
        for word, after in zip(words, following, strict=True)
    ]


def _ends_sentence(word: str, following: str, known: Abbreviations) -> bool:
    """Say whether a word's final full stop is one of its own."""
    stem = word[:-1]
    if not stem or not word.endswith("."):
        return False
    if ("." in stem and _LETTER.search(stem)) or stem in known.always or _LOWER.match(following):
        return False
    return not (stem in known.before_digits and _DIGIT.match(following))
