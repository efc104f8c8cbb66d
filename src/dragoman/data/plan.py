"""Which pairs make which batch: similar lengths together under budgets of tokens, by (seed, epoch) alone.

Paper: 5.1
Silent: how lengths are put together ("approximate sequence length"); ours: pairs sorted by (longer side,
target, source), ties in random order, cut greedily, batches in random order. Pairs over 256 tokens on a side
are not trained on, as in tensor2tensor.

Measured on Multi30k en-de (29,000 pairs, joint vocabulary of 8,000), share of padding at 25,000 / 4,096 /
1,024 tokens a side: by (longer, target, source) 10.1 / 4.5 / 1.7 %, by (target, source) 25.2 / 8.7 / 2.8 %,
by the longer side alone 11.3 / 7.1 / 6.4 %, in tensor2tensor's buckets (steps of 1.1) 11.9 / 7.7 / 7.1 %. (Before
rows and columns were rounded, see `ROWS_MULTIPLE` and `batches.LENGTH_MULTIPLE`.)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int64, Integer

from dragoman.data.shards import PairShards
from dragoman.errors import ConfigError, DataError

Indices = Int64[np.ndarray, " n"]
Lengths = Integer[np.ndarray, " pairs"]

# Rows times longest row, in budgets. Similar lengths keep well below it; it is there for corpora of odd
# shape, whose batches would otherwise have no bound in memory.
PADDED_BUDGETS = 1.5

# Rows of a batch, but for small and last ones: kernels are made anew for each shape, and few shapes are soon made.
ROWS_MULTIPLE = 8

MAX_LENGTH = 256


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """The batches of every epoch; holds the lengths and nothing else.

    Each epoch has the same number of batches and, in another order, batches of the same lengths; which of the
    pairs of equal lengths are together changes. Two plans with the same `digest` give the same batches.

    Args:
        source_lengths: tokens of each source, EOS counted.
        target_lengths: tokens of each target, EOS counted.
        source_tokens: most source tokens in a batch, padding not counted (5.1: 25,000).
        target_tokens: most target tokens in a batch, padding not counted (5.1: 25,000).
        seed: with the epoch, the only source of order; not negative.
        max_length: pairs with more tokens than this on either side are left out; see `left_out` and `notes`.

    Raises:
        ConfigError: a budget is smaller than `max_length`, or a number is out of range.
        DataError: no pair is left.
    """

    source_lengths: Lengths
    target_lengths: Lengths
    source_tokens: int
    target_tokens: int
    seed: int
    max_length: int = MAX_LENGTH

    def __post_init__(self) -> None:
        assert self.source_lengths.shape == self.target_lengths.shape, "sides of unequal length"
        _check_numbers(self)
        if not len(self.kept):
            raise DataError(
                f"no pair is left to train on: all {len(self._longer)} are over max_length={self.max_length}",
                cure="raise max_length, or give text with shorter lines",
            )

    @classmethod
    def of(
        cls,
        shards: PairShards,
        *,
        source_tokens: int,
        target_tokens: int,
        seed: int,
        max_length: int = MAX_LENGTH,
    ) -> BatchPlan:
        """The plan for the pairs of `shards`; arguments as for the class."""
        return cls(
            shards.source_lengths, shards.target_lengths, source_tokens, target_tokens, seed, max_length
        )

    def __len__(self) -> int:
        """Batches an epoch."""
        return len(self._bounds)

    @cached_property
    def _longer(self) -> Indices:
        longer: Indices = np.maximum(self.source_lengths, self.target_lengths).astype(np.int64)
        return longer

    @cached_property
    def kept(self) -> Indices:
        """The pairs trained on, rising: each is in exactly one batch an epoch."""
        return np.flatnonzero(self._longer <= self.max_length)

    @cached_property
    def left_out(self) -> Indices:
        """The pairs over `max_length`, rising."""
        return np.flatnonzero(self._longer > self.max_length)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should be told: pairs left out."""
        if not len(self.left_out):
            return ()
        return (
            f"{len(self.left_out):,} of {len(self._longer):,} pairs have over {self.max_length} tokens"
            " on a side and are not trained on",
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 over all that batches depend on: a cursor is good for plans of one digest only."""
        numbers = (
            self.source_tokens,
            self.target_tokens,
            self.seed,
            self.max_length,
            len(self.source_lengths),
        )
        digest = hashlib.sha256(repr(numbers).encode("ascii"))
        for lengths in (self.source_lengths, self.target_lengths):
            digest.update(np.ascontiguousarray(lengths, dtype="<i4").data)
        return digest.hexdigest()

    def epoch(self, epoch: int) -> list[Indices]:
        """The batches of one epoch in order, each the indices of its pairs.

        Args:
            epoch: from 0.
        """
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, epoch])))
        shuffled = random.permutation(len(self.kept))
        order = shuffled[np.argsort(self._keys[shuffled], kind="stable")]
        pairs = self.kept[order]
        return [pairs[start:stop] for start, stop in self._bounds[random.permutation(len(self._bounds))]]

    @cached_property
    def _keys(self) -> Indices:
        """One number for each kept pair that sorts as (longer side, target, source)."""
        return length_keys(self.source_lengths[self.kept], self.target_lengths[self.kept])

    @cached_property
    def _bounds(self) -> Int64[np.ndarray, "batches 2"]:
        """Where the sorted pairs are cut; the same each epoch, as ties have equal lengths."""
        order = np.argsort(self._keys, kind="stable")
        return cut(
            self.source_lengths[self.kept][order],
            self.target_lengths[self.kept][order],
            source_tokens=self.source_tokens,
            target_tokens=self.target_tokens,
        )


def length_keys(source_lengths: Lengths, target_lengths: Lengths) -> Indices:
    """One number a pair that sorts as (longer side, target, source) does."""
    source, target = source_lengths.astype(np.int64), target_lengths.astype(np.int64)
    longer = np.maximum(source, target)
    base = int(longer.max(initial=0)) + 1
    assert base < 2**21, "a unit too long for its key to fit 63 bits"
    return (longer * base + target) * base + source


def cut(
    source_lengths: Lengths, target_lengths: Lengths, *, source_tokens: int, target_tokens: int
) -> Int64[np.ndarray, "batches 2"]:
    """Cut a sequence of pairs greedily into runs that keep both budgets and the bound on padding.

    A pair over a budget by itself makes a run of its own.

    Returns:
        (start, stop) of each run, in order; together they cover the sequence once.
    """
    sides = [
        (source_lengths, np.concatenate([[0], np.cumsum(source_lengths, dtype=np.int64)]), source_tokens),
        (target_lengths, np.concatenate([[0], np.cumsum(target_lengths, dtype=np.int64)]), target_tokens),
    ]
    bounds: list[tuple[int, int]] = []
    start, pairs = 0, len(source_lengths)
    while start < pairs:
        stop = pairs
        for lengths, sums, budget in sides:
            stop = min(stop, _run_end(lengths, sums, start, budget))
        rows = max(stop - start, 1)
        if stop < pairs and rows > ROWS_MULTIPLE:
            rows -= rows % ROWS_MULTIPLE
        stop = start + rows
        bounds.append((start, stop))
        start = stop
    return np.array(bounds, np.int64).reshape(-1, 2)


def _run_end(lengths: Lengths, sums: Indices, start: int, budget: int) -> int:
    """The last end for a run from `start` that keeps one side's budget and padded size."""
    stop = int(np.searchsorted(sums, sums[start] + budget, side="right")) - 1
    longest = np.maximum.accumulate(lengths[start:stop].astype(np.int64))
    padded = longest * np.arange(1, stop - start + 1)
    return start + int(np.searchsorted(padded, PADDED_BUDGETS * budget, side="right"))


def _check_numbers(plan: BatchPlan) -> None:
    """Refuse numbers no plan can be made of."""
    for name, least in (("source_tokens", 1), ("target_tokens", 1), ("seed", 0), ("max_length", 1)):
        if getattr(plan, name) < least:
            raise ConfigError(f"{name} must be at least {least}, not {getattr(plan, name)}", where=name)
    for name in ("source_tokens", "target_tokens"):
        if plan.max_length > getattr(plan, name):
            raise ConfigError(
                f"max_length={plan.max_length} is over the budget of a batch, {name}={getattr(plan, name)}",
                where=name,
                cure=f"raise {name} or lower max_length",
            )
