"""The language of a text from the end of its file's name: `train.en`, `news.pt-BR.gz`, `train.en-de.tsv`.

Paper: none (infrastructure)
"""

from __future__ import annotations

import re
from pathlib import PurePath

_COMPRESSED = {".gz", ".xz", ".zst"}
_TABLES = {".tsv", ".txt", ".tab"}
# Two letters only: of three letters most endings are no language ("txt", "tok", "src").
_CODE = r"[a-z]{2}(?:[-_][A-Za-z]{2,4}|[-_][0-9]{3})?"
_ONE = re.compile(rf"\.({_CODE})")
_TWO = re.compile(r"\.([a-z]{2})[-_]([a-z]{2})")


def language_of(name: str) -> str | None:
    """The language code a file's name ends in, or None."""
    match = _ONE.fullmatch(_plain(name).suffix)
    return match[1] if match else None


def languages_of_table(name: str) -> tuple[str, str] | tuple[None, None]:
    """The two codes before the ending of a file of columns, or None twice."""
    path = _plain(name)
    match = _TWO.fullmatch(path.with_suffix("").suffix if path.suffix in _TABLES else path.suffix)
    return (match[1], match[2]) if match else (None, None)


def _plain(name: str) -> PurePath:
    """The file's name without its folder and without the ending of a compressor."""
    path = PurePath(PurePath(name).name)
    return path.with_suffix("") if path.suffix in _COMPRESSED else path
