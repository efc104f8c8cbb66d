"""Where to cut a text that is too long for a model.

Paper: none (infrastructure)
The rule: a run holds as many tokens as fit; it ends after the last sentence end in its second half, else before
the last word start in its second half, else where it is full. Runs joined again are the text.
"""

from __future__ import annotations

from collections.abc import Sequence

_SENTENCE_ENDS = (".", "!", "?", "\u3002", "\uff01", "\uff1f", "\u2026", ":", ";")
_WORD_START = "\u2581"


def split_ids(ids: Sequence[int], pieces: Sequence[str], *, longest: int) -> list[list[int]]:
    """Cuts tokens into runs of at most `longest`.

    Args:
        ids: the tokens of one text.
        pieces: the same as pieces: U+2581 begins a word.
        longest: at least 1.
    """
    assert len(ids) == len(pieces), "as many pieces as ids"
    assert longest >= 1, "a run holds at least one token"
    runs, start = [], 0
    while len(ids) - start > longest:
        end = _cut(pieces, start, start + longest)
        runs.append(list(ids[start:end]))
        start = end
    runs.append(list(ids[start:]))
    return runs


def _cut(pieces: Sequence[str], start: int, full: int) -> int:
    """The end of the run that begins at `start` and can hold pieces up to `full`."""
    half = start + (full - start + 1) // 2
    candidates = range(full, half - 1, -1)
    begins_word = [k for k in candidates if k > start and pieces[k].startswith(_WORD_START)]
    for k in begins_word:
        if pieces[k - 1].endswith(_SENTENCE_ENDS):
            return k
    return begins_word[0] if begins_word else full
