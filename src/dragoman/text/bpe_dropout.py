"""BPE-dropout: merges left out at random while a text is cut into subwords.

Later: Provilkov et al. 2020, arXiv:1910.13267

SentencePiece samples too, but from a random state hidden in each thread, which no call can set. Here the
merges are done from the model's own pieces and scores, and every call draws from its own seed, so that the
result depends on the arguments alone.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

_DRAWS_AT_ONCE = 256
_Heap = list[tuple[float, int, int, str]]  # minus the score, left index, right index, merged piece


class MergeTable:
    """The merges of a BPE model: a pair of neighbors merges when their concatenation is a piece.

    Args:
        scores: score of each piece that merging may make; the highest is merged first.
        whole: pieces that are taken from the text whole and never merged.
        space: how the model writes a space.
    """

    def __init__(self, scores: Mapping[str, float], *, whole: Iterable[str], space: str) -> None:
        self._keys = {piece: -score for piece, score in scores.items() if len(piece) > 1}
        longest_first = sorted(whole, key=len, reverse=True)
        self._whole = frozenset(longest_first)
        self._whole_pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._word_pattern = self._find_word_pattern(space)

    def _find_word_pattern(self, space: str) -> re.Pattern[str] | None:
        """Words can be cut apart when no piece reaches over the start of a word; it is much faster."""
        starts = re.compile(f"[^{space}]{space}")
        if any(starts.search(piece) for piece in self._keys):
            return None
        return re.compile(f"{space}+[^{space}]*|[^{space}]+")

    def segment(self, text: str, *, p: float, seed: int) -> list[str]:
        """Cut a text, already normalized by the model, into pieces and single characters.

        Before each merge every possible merge is left out with probability `p`, anew for each; the best of
        the others is done; when all are left out the word stays as it is.

        Args:
            text: the text with the model's spaces.
            p: probability of leaving a merge out; 0 gives the model's own cut, 1 the characters.
            seed: 0 or more.
        """
        draws = _uniform(seed) if p > 0 else iter(())
        pieces: list[str] = []
        for word in self._words(text):
            if word in self._whole:
                pieces.append(word)
            else:
                self._segment_word(word, p, draws, pieces)
        return pieces

    def _words(self, text: str) -> Iterator[str]:
        for span in self._spans(text):
            if span in self._whole or self._word_pattern is None:
                yield span
            else:
                yield from self._word_pattern.findall(span)

    def _spans(self, text: str) -> Iterator[str]:
        """The text cut at the pieces that are taken whole, which come by themselves."""
        if self._whole_pattern is None:
            yield text
            return
        end = 0
        for match in self._whole_pattern.finditer(text):
            if match.start() > end:
                yield text[end : match.start()]
            yield match.group()
            end = match.end()
        if end < len(text):
            yield text[end:]

    def _segment_word(self, word: str, p: float, draws: Iterator[float], pieces: list[str]) -> None:
        symbols: list[str] = list(word)  # "" once merged into its left neighbor
        after = list(range(1, len(symbols) + 1))
        before = list(range(-1, len(symbols) - 1))
        keys = self._keys
        heap: _Heap = [
            (keys[merged], left, left + 1, merged)
            for left in range(len(symbols) - 1)
            if (merged := symbols[left] + symbols[left + 1]) in keys
        ]
        heapq.heapify(heap)
        while (chosen := _choose(heap, symbols, p, draws)) is not None:
            _, left, right, merged = chosen
            symbols[left], symbols[right] = merged, ""
            following = after[left] = after[right]
            if following < len(symbols):
                before[following] = left
                if (wider := merged + symbols[following]) in keys:
                    heapq.heappush(heap, (keys[wider], left, following, wider))
            if (preceding := before[left]) >= 0 and (wider := symbols[preceding] + merged) in keys:
                heapq.heappush(heap, (keys[wider], preceding, left, wider))
        pieces.extend(filter(None, symbols))


def _choose(
    heap: _Heap, symbols: list[str], p: float, draws: Iterator[float]
) -> tuple[float, int, int, str] | None:
    """The best possible merge that is not left out; those left out now are possible again at the next."""
    left_out: _Heap = []
    chosen = None
    while heap and chosen is None:
        entry = heapq.heappop(heap)
        _, left, right, merged = entry
        if not symbols[left] or not symbols[right] or len(symbols[left]) + len(symbols[right]) != len(merged):
            continue  # one of the two has been merged with another since
        if p > 0 and next(draws) < p:
            left_out.append(entry)
        else:
            chosen = entry
    if chosen is not None:
        for entry in left_out:
            heapq.heappush(heap, entry)
    return chosen


def _uniform(seed: int) -> Iterator[float]:
    """Numbers of [0, 1), the same for the same seed, made as they are needed."""
    generator = np.random.Generator(np.random.PCG64(seed))
    while True:
        yield from generator.random(_DRAWS_AT_ONCE).tolist()
