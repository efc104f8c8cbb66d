"""What is changed in a unit of text before it becomes subwords: four things, and nothing else.

Paper: none (infrastructure)

`normalize` replaces U+000D, U+000A and U+2581 by a space each (the first two would break the line rule,
the third is how subwords write a space) and each surrogate, which UTF-8 cannot hold, by U+FFFD.
No Unicode normalization form is applied, neither NFC nor NFKC; runs of spaces, and spaces at the ends,
are kept as they are.
"""

from __future__ import annotations

import re

SPACE_MARK = "\u2581"  # SentencePiece writes a space as this
REPLACEMENT = "\ufffd"

_TO_SPACE = str.maketrans({"\r": " ", "\n": " ", SPACE_MARK: " "})
_SURROGATE = re.compile("[\ud800-\udfff]")


def normalize(text: str) -> str:
    """Make any string a unit that subwords give back exactly.

    Idempotent, and of the same length in code points as `text`: decode(encode(x)) == normalize(x),
    encode(normalize(x)) == encode(x).

    Args:
        text: any string, lone surrogates included.

    Returns:
        The string with CR, LF and U+2581 as spaces and surrogates as U+FFFD.
    """
    return _SURROGATE.sub(REPLACEMENT, text.translate(_TO_SPACE))


def is_blank(text: str) -> bool:
    """Whether a unit holds nothing but Unicode White_Space; the empty unit is blank too.

    `str.isspace` also takes U+001C to U+001F, which are not White_Space in Unicode's own list.
    """
    return all(character in _WHITE_SPACE for character in text)


_WHITE_SPACE = frozenset(
    "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
