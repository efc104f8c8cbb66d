"""BPE-dropout: merges left out at random while a text is cut into subwords.

Later: Provilkov et al. 2020, arXiv:1910.13267

SentencePiece samples too, but from a random state hidden in each thread, which no call can set. Here the
merges are done from the model's own pieces and scores, and every call draws from its own seed, so that the
result depends on the arguments alone.

A word's cut depends on nothing but which of the merges looked at were left out. So that is remembered: a word
seen before goes by its draws straight to the same cut, and only a way of leaving out that is new is worked out.
Words repeat and few merges are left out, so nearly all are remembered.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import TypeVar

import numpy as np

Key = TypeVar("Key")

_DRAWS_AT_ONCE = 256
_MOST_REMEMBERED = 200_000  # ways, 300 bytes each; the frequent ones come first
_LONGEST_REMEMBERED = 32  # characters; longer words seldom come again
_Entry = tuple[float, int, int, str]  # minus the score, left index, right index, merged piece
_Heap = list[_Entry]


@dataclass(slots=True)
class _Way:
    """How a word is cut when certain merges have been left out and no more are."""

    cut: tuple[str, ...]
    looked_at: int  # merges, from the last left out on
    branches: dict[int, _Way] = field(default_factory=dict)  # by which of those is the next to be left out


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
        self._remembered: dict[str, _Way] = {}
        self._ways = 0

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
        draws = _Draws(p, seed)
        pieces: list[str] = []
        for word in self._words(text):
            if word in self._whole:
                pieces.append(word)
            else:
                pieces.extend(self._cut(word, draws))
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

    def _cut(self, word: str, draws: _Draws) -> tuple[str, ...]:
        if len(word) > _LONGEST_REMEMBERED:
            return self._merge(word, draws)[0]
        way = self._remembered.get(word)
        if way is None:
            way = self._work_out(word, b"")
            self._keep(self._remembered, word, way)
        looked_at = b""
        while (k := draws.next_left_out(way.looked_at)) is not None:
            looked_at += bytes(k) + b"\1"
            following = way.branches.get(k)
            if following is None:
                following = self._work_out(word, looked_at)
                self._keep(way.branches, k, following)
            way = following
        return way.cut

    def _work_out(self, word: str, left_out: bytes) -> _Way:
        """How the word is cut when its first merges are left out or not by `left_out`, and no further ones are."""
        cut, looked_at = self._merge(word, chain(left_out, repeat(0)))
        return _Way(cut, looked_at - len(left_out))

    def _keep(self, ways: dict[Key, _Way], key: Key, way: _Way) -> None:
        if self._ways < _MOST_REMEMBERED:
            self._ways += 1
            ways[key] = way

    def _merge(self, word: str, left_out: Iterator[int]) -> tuple[tuple[str, ...], int]:
        """The word's cut, and how many merges were looked at, each with the next of `left_out`."""
        looked_at = 0
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
        while heap:
            chosen, looked_at_now = _choose(heap, symbols, left_out)
            looked_at += looked_at_now
            if chosen is None:
                break
            _, left, right, merged = chosen
            symbols[left], symbols[right] = merged, ""
            following = after[left] = after[right]
            if following < len(symbols):
                before[following] = left
                if (wider := merged + symbols[following]) in keys:
                    heapq.heappush(heap, (keys[wider], left, following, wider))
            if (preceding := before[left]) >= 0 and (wider := symbols[preceding] + merged) in keys:
                heapq.heappush(heap, (keys[wider], preceding, left, wider))
        return tuple(filter(None, symbols)), looked_at


def _choose(heap: _Heap, symbols: list[str], left_out: Iterator[int]) -> tuple[_Entry | None, int]:
    """The best possible merge that is not left out, and how many were looked at to find it.

    Those left out now are possible again at the next.
    """
    passed_by: _Heap = []
    while heap:
        entry = heapq.heappop(heap)
        _, left, right, merged = entry
        if not symbols[left] or not symbols[right] or len(symbols[left]) + len(symbols[right]) != len(merged):
            continue  # one of the two has been merged with another since
        if not next(left_out):
            looked_at = len(passed_by) + 1
            for again in passed_by:
                heapq.heappush(heap, again)
            return entry, looked_at
        passed_by.append(entry)
    return None, len(passed_by)


class _Draws:
    """Whether each merge looked at is left out: 1 or 0, the same for the same arguments, drawn as needed."""

    def __init__(self, p: float, seed: int) -> None:
        self._p = p
        self._generator = np.random.Generator(np.random.PCG64(seed)) if p > 0 else None
        self._drawn = b""
        self._at = 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self._draw(1)
        self._at += 1
        return self._drawn[self._at - 1]

    def next_left_out(self, most: int) -> int | None:
        """Which of the next `most`, counted from 0, is the first left out; it and those before it are used up."""
        self._draw(most)
        start, self._at = self._at, self._at + most
        found = self._drawn.find(1, start, self._at)
        if found < 0:
            return None
        self._at = found + 1
        return found - start

    def _draw(self, count: int) -> None:
        """Have that many more at hand."""
        while self._at + count > len(self._drawn):
            self._drawn = self._drawn[self._at :] + self._more()
            self._at = 0

    def _more(self) -> bytes:
        if self._generator is None:
            return bytes(_DRAWS_AT_ONCE)
        return (self._generator.random(_DRAWS_AT_ONCE) < self._p).tobytes()
