"""Language codes as scorers need them: the two-letter code behind "zh-Hans", "deu" or "pt_BR".

Paper: none (infrastructure)
"""

from __future__ import annotations

_TWO_LETTERS = {
    "zho": "zh",
    "chi": "zh",
    "cmn": "zh",
    "jpn": "ja",
    "kor": "ko",
    "deu": "de",
    "ger": "de",
    "eng": "en",
    "fra": "fr",
    "fre": "fr",
    "ita": "it",
}


def primary_language(code: str) -> str:
    """Return the language part of a language tag, in two letters where the scorers have rules for it.

    Args:
        code: a language tag in any case, such as "zh-Hans", "zh_CN", "deu", "jpn_Jpan".

    Returns:
        The first part in lower case; the three-letter codes of Chinese, Japanese, Korean, German, English,
        French and Italian in two letters.
    """
    first = code.strip().lower().replace("_", "-").split("-")[0]
    return _TWO_LETTERS.get(first, first)
