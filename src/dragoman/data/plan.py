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
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from jaxtyping import Bool, Int64, Integer

from dragoman.data.shards import PairShards
from dragoman.errors import ConfigError, DataError

Indices = Int64[np.ndarray, " n"]
# Numbers of pairs, and other numbers of which there is one a pair, in as few bytes as hold them.
Compact = Integer[np.ndarray, " n"]
Lengths = Integer[np.ndarray, " pairs"]

# Rows times longest row, in budgets. Similar lengths keep well below it; it is there for corpora of odd
# shape, whose batches would otherwise have no bound in memory.
PADDED_BUDGETS = 1.5

# Rows of a batch, but for small and last ones: kernels are made anew for each shape, and few shapes are soon made.
ROWS_MULTIPLE = 8

MAX_LENGTH = 256


@dataclass(frozen=True, eq=False)
class Epoch(Sequence[Compact]):
    """The batches of an epoch: runs of `pairs`, in the order of `bounds`, made when they are asked for."""

    pairs: Compact
    bounds: Int64[np.ndarray, "batches 2"]

    def __len__(self) -> int:
        """Batches."""
        return len(self.bounds)

    @overload
    def __getitem__(self, at: int) -> Compact: ...
    @overload
    def __getitem__(self, at: slice) -> Epoch: ...
    def __getitem__(self, at: int | slice) -> Compact | Epoch:
        """The indices of the pairs of a batch, or some batches."""
        if isinstance(at, slice):
            return Epoch(self.pairs, self.bounds[at])
        start, stop = self.bounds[at]
        return self.pairs[start:stop]


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
                f"no pair is left to train on: all {len(self.source_lengths)} are over max_length={self.max_length}",
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
    def _is_kept(self) -> Bool[np.ndarray, " pairs"]:
        return (self.source_lengths <= self.max_length) & (self.target_lengths <= self.max_length)

    @cached_property
    def kept(self) -> Compact:
        """The pairs trained on, rising: each is in exactly one batch an epoch."""
        return np.flatnonzero(self._is_kept).astype(_type_for(len(self.source_lengths)))

    @property
    def left_out(self) -> Indices:
        """The pairs over `max_length`, rising."""
        return np.flatnonzero(~self._is_kept)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should be told: pairs left out."""
        left_out = len(self.left_out)
        if not left_out:
            return ()
        return (
            f"{left_out:,} of {len(self.source_lengths):,} pairs have over {self.max_length} tokens"
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

    def epoch(self, epoch: int) -> Epoch:
        """The batches of one epoch in order, each the indices of its pairs.

        Args:
            epoch: from 0.
        """
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, epoch])))
        shuffled = np.arange(len(self.kept), dtype=self.kept.dtype)
        random.shuffle(shuffled)
        shuffled = shuffled[_sorted(self._keys[shuffled])]
        return Epoch(self.kept[shuffled], self._bounds[random.permutation(len(self._bounds))])

    @cached_property
    def _keys(self) -> Compact:
        """One number for each kept pair that sorts as (longer side, target, source)."""
        return length_keys(self.source_lengths[self.kept], self.target_lengths[self.kept])

    @cached_property
    def _bounds(self) -> Int64[np.ndarray, "batches 2"]:
        """Where the sorted pairs are cut; the same each epoch, as ties have equal lengths."""
        pairs = self.kept[_sorted(self._keys)]
        return cut(
            self.source_lengths[pairs],
            self.target_lengths[pairs],
            source_tokens=self.source_tokens,
            target_tokens=self.target_tokens,
        )


def length_keys(source_lengths: Lengths, target_lengths: Lengths) -> Compact:
    """One number a pair that sorts as (longer side, target, source) does."""
    base = int(max(source_lengths.max(initial=0), target_lengths.max(initial=0))) + 1
    assert base < 2**21, "a unit too long for its key to fit 63 bits"
    keys: Compact = np.maximum(source_lengths, target_lengths).astype(_type_for(base**3))
    for lengths in (target_lengths, source_lengths):
        keys *= base
        keys += lengths
    return keys


def _sorted(keys: Compact) -> Compact:
    """Places of the keys in rising order, equals in the order they are in."""
    return np.argsort(keys, kind="stable").astype(_type_for(len(keys)))


def _type_for(most: int) -> type[np.signedinteger]:
    """The smallest of two types that holds numbers up to `most`: a corpus may have many millions of pairs."""
    return np.int32 if most < 2**31 else np.int64


def cut(
    source_lengths: Lengths, target_lengths: Lengths, *, source_tokens: int, target_tokens: int
) -> Int64[np.ndarray, "batches 2"]:
    """Cut a sequence of pairs greedily into runs that keep both budgets and the bound on padding.

    A pair over a budget by itself makes a run of its own.

    Returns:
        (start, stop) of each run, in order; together they cover the sequence once.
    """
    edges = array("q", [0])
    start, pairs = 0, len(source_lengths)
    while start < pairs:
        stop = min(
            _run_end(source_lengths, start, source_tokens), _run_end(target_lengths, start, target_tokens)
        )
        rows = max(stop - start, 1)
        if stop < pairs and rows > ROWS_MULTIPLE:
            rows -= rows % ROWS_MULTIPLE
        start += rows
        edges.append(start)
    return np.stack([np.array(edges[:-1], np.int64), np.array(edges[1:], np.int64)], axis=1)


def _run_end(lengths: Lengths, start: int, budget: int) -> int:
    """The last end for a run from `start` that keeps one side's budget and padded size."""
    some = lengths[start : start + budget + 1].astype(np.int64)  # every unit has a token at least
    rows = int(np.searchsorted(np.cumsum(some), budget, side="right"))
    padded = np.maximum.accumulate(some[:rows]) * np.arange(1, rows + 1)
    return start + int(np.searchsorted(padded, PADDED_BUDGETS * budget, side="right"))


def _check_numbers(plan: BatchPlan) -> None:
    """Refuse numbers no plan can be made of."""
    for name, least in (("source_tokens", 1), ("target_tokens", 1), ("seed", 0), ("max_length", 1)):
        if getattr(plan, name) < least:
            raise ConfigError(
                f"{name} must be at least {least}, not {getattr(plan, name)}",
                where=name,
                cure=f"give {least} or more",
            )
    for name in ("source_tokens", "target_tokens"):
        if plan.max_length > getattr(plan, name):
            raise ConfigError(
                f"max_length={plan.max_length} is over the budget of a batch, {name}={getattr(plan, name)}",
                where=name,
                cure=f"raise {name} or lower max_length",
            )
