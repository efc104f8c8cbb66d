"""Seeded choices that are the same in every process and version of Python.

Paper: none (infrastructure)
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Weighted(Generic[Item]):
    """Items with weights, e.g. `Weighted(("the", 3), ("a", 1))`."""

    def __init__(self, *pairs: tuple[Item, float]) -> None:
        total = sum(weight for _, weight in pairs)
        self.items = tuple(item for item, _ in pairs)
        self.bounds = tuple(bound / total for bound in accumulate(weight for _, weight in pairs))


class Chooser:
    """Draws from one stream of random numbers, using only `random()`, whose values Python promises."""

    def __init__(self, seed: str) -> None:
        self._next = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self._next() < probability

    def pick(self, options: Sequence[Item]) -> Item:
        """One of the options, all equally likely."""
        return options[int(self._next() * len(options))]

    def number(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(self._next() * (high - low + 1))

    def weighted(self, weights: Weighted[Item]) -> Item:
        """One of the items, as likely as its weight."""
        point = self._next()
        for item, bound in zip(weights.items, weights.bounds, strict=True):
            if point < bound:
                return item
        return weights.items[-1]
