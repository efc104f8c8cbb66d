"""Batches of tensors from shards, endlessly, and a cursor of two integers to go on from.

Paper: 5.1

B = pairs of the batch, S and T = longest source and target of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int64, Integer
from torch import Tensor

from dragoman.data.manifest import Side
from dragoman.data.plan import MAX_LENGTH, BatchPlan, Compact, Indices, cut, length_keys
from dragoman.data.prefetch import prefetched
from dragoman.data.resample import Segmenter, bpe_dropout_segmenter
from dragoman.data.shards import PairShards
from dragoman.errors import ConfigError, DataError
from dragoman.text.subwords import Subwords

__all__ = [
    "MAX_LENGTH",
    "Batch",
    "BatchLoader",
    "BatchPlan",
    "Cursor",
    "Objective",
    "Segmenter",
    "bpe_dropout_segmenter",
    "dev_batches",
    "make_batch",
]

PREFETCHED_BATCHES = 4

# Columns of a batch: as with its rows, few different shapes run faster than many, a few per cent of padding included.
LENGTH_MULTIPLE = 4


@dataclass(frozen=True)
class Cursor:
    """A place between two batches: `batch` of `epoch` are done. Good for plans of one `digest` only."""

    epoch: int = 0
    batch: int = 0


@dataclass(frozen=True, eq=False)
class Batch:
    """Pairs as tensors, padded on the right with `Subwords.PAD_ID`.

    `target_input_ids` is the target shifted right by one, BOS first (3.1); `target_output_ids` ends in EOS.
    The numbers of tokens leave out padding and count one EOS a unit.
    """

    source_ids: Int64[Tensor, "B S"]
    target_input_ids: Int64[Tensor, "B T"]
    target_output_ids: Int64[Tensor, "B T"]
    pair_indices: Int64[Tensor, " B"]
    source_tokens: int
    target_tokens: int

    def __len__(self) -> int:
        """Pairs in the batch."""
        return len(self.pair_indices)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch with its tensors on `device`; from pinned memory without waiting for the copy."""
        return Batch(
            self.source_ids.to(device, non_blocking=True),
            self.target_input_ids.to(device, non_blocking=True),
            self.target_output_ids.to(device, non_blocking=True),
            self.pair_indices.to(device, non_blocking=True),
            self.source_tokens,
            self.target_tokens,
        )

    def pin_memory(self) -> Batch:
        """The same batch in page-locked memory, for a fast copy to an accelerator."""
        return Batch(
            self.source_ids.pin_memory(),
            self.target_input_ids.pin_memory(),
            self.target_output_ids.pin_memory(),
            self.pair_indices.pin_memory(),
            self.source_tokens,
            self.target_tokens,
        )


Objective = Callable[[Batch, int], Batch]


@dataclass(frozen=True, eq=False)
class _Padded:
    """Units of one side as a rectangle, and where it holds tokens."""

    ids: Int64[np.ndarray, "B L"]
    is_token: Bool[np.ndarray, "B L"]

    @property
    def tokens(self) -> int:
        return int(self.is_token.sum())


def make_batch(
    shards: PairShards, indices: Compact, *, segment: Segmenter | None = None, epoch: int = 0
) -> Batch:
    """Make the batch of the given pairs, in the given order.

    Args:
        shards: where the pairs are.
        indices: numbers of the pairs; at least one.
        segment: gives other ids for a unit; the stored ones are used when None.
        epoch: handed to `segment`.
    """
    source = _side(shards, "source", indices, segment, epoch)
    one_text = shards.target_offsets is shards.source_offsets
    target = source if one_text else _side(shards, "target", indices, segment, epoch)
    shifted = np.full_like(target.ids, Subwords.BOS_ID)
    shifted[:, 1:] = target.ids[:, :-1]
    shifted[~target.is_token] = Subwords.PAD_ID
    return Batch(
        source_ids=torch.from_numpy(source.ids),
        target_input_ids=torch.from_numpy(shifted),
        target_output_ids=torch.from_numpy(target.ids),
        pair_indices=torch.from_numpy(np.array(indices, np.int64)),
        source_tokens=source.tokens,
        target_tokens=target.tokens,
    )


def _side(shards: PairShards, side: Side, indices: Compact, segment: Segmenter | None, epoch: int) -> _Padded:
    stored, offsets = (
        (shards.source_ids, shards.source_offsets)
        if side == "source"
        else (shards.target_ids, shards.target_offsets)
    )
    starts = offsets[indices]
    lengths = offsets[indices + 1] - starts
    if segment is None:
        return _gather(stored, starts, lengths)
    units = [
        [*segment(side, stored[start : start + length - 1], int(pair), epoch), Subwords.EOS_ID]
        for start, length, pair in zip(starts, lengths, indices, strict=True)
    ]
    flat = np.concatenate([np.array(unit, np.int64) for unit in units])
    new_lengths = np.array([len(unit) for unit in units], np.int64)
    return _gather(flat, np.cumsum(new_lengths) - new_lengths, new_lengths)


def _gather(ids: Integer[np.ndarray, " n"], starts: Indices, lengths: Indices) -> _Padded:
    """Units of `ids` as rows, by index arithmetic alone."""
    longest = int(lengths.max())
    columns = np.arange(longest + -longest % LENGTH_MULTIPLE)
    is_token = columns < lengths[:, None]
    padded = np.full(is_token.shape, Subwords.PAD_ID, np.int64)
    padded[is_token] = ids[(starts[:, None] + columns)[is_token]]
    return _Padded(padded, is_token)


class BatchLoader:
    """The batches of a plan, from any cursor on.

    Args:
        shards: the pairs the plan was made for.
        plan: which pairs make which batch.
        segment: gives other ids for a unit each epoch (BPE-dropout); such batches may hold somewhat more
            tokens than the budget, which counts stored ids.
        objective: makes of a batch and its epoch what is learned from it; the batch itself when None.
        prefetch: batches made ahead in a thread; 0 for none. Changes nothing but time.
    """

    def __init__(
        self,
        shards: PairShards,
        plan: BatchPlan,
        *,
        segment: Segmenter | None = None,
        objective: Objective | None = None,
        prefetch: int = PREFETCHED_BATCHES,
    ) -> None:
        if len(shards) != len(plan.source_lengths):
            raise DataError(
                f"the plan is for {len(plan.source_lengths)} pairs, the shards hold {len(shards)}",
                cure="make the plan of the same shards",
            )
        if prefetch < 0:
            raise ConfigError(
                f"prefetch must be at least 0, not {prefetch}",
                where="prefetch",
                cure="0 prepares each batch when it is wanted",
            )
        self.shards = shards
        self.plan = plan
        self.prefetch = prefetch
        self._objective = objective
        self._segment = None if segment is None else _no_longer_than(segment, plan.max_length)

    def batches(self, start: Cursor = Cursor()) -> Iterator[tuple[Batch, Cursor]]:
        """Endless batches from `start` on, each with the cursor to go on from after it.

        Close the iterator (or let it be collected) to end its thread.

        Raises:
            ConfigError: `start` is no place of this plan.
        """
        if start.epoch < 0 or not 0 <= start.batch <= len(self.plan):
            raise ConfigError(
                f"epoch {start.epoch}, batch {start.batch} is no place in epochs of {len(self.plan)} batches",
                where="cursor",
                cure="go on with the corpus, budgets and seed the run began with",
            )
        made = self._make(start)
        return prefetched(made, self.prefetch) if self.prefetch else made

    def _make(self, start: Cursor) -> Iterator[tuple[Batch, Cursor]]:
        epoch, done = start.epoch, start.batch
        while True:
            planned = self.plan.epoch(epoch)
            for number in range(done, len(planned)):
                batch = make_batch(self.shards, planned[number], segment=self._segment, epoch=epoch)
                if self._objective is not None:
                    batch = self._objective(batch, epoch)
                last = number + 1 == len(planned)
                yield batch, Cursor(epoch + 1, 0) if last else Cursor(epoch, number + 1)
            epoch, done = epoch + 1, 0


def _no_longer_than(segment: Segmenter, max_length: int) -> Segmenter:
    """Keep the stored ids where the new ones, with EOS, would be over `max_length`."""

    def bounded(side: Side, ids: Integer[np.ndarray, " n"], pair: int, epoch: int) -> list[int]:
        new = segment(side, ids, pair, epoch)
        return new if len(new) < max_length else ids.tolist()

    return bounded


def dev_batches(
    shards: PairShards, target_tokens: int, *, source_tokens: int | None = None
) -> Iterator[Batch]:
    """Every pair once, shortest first, the same batches each time; none is left out, however long.

    Args:
        shards: the pairs.
        target_tokens: most target tokens in a batch, padding not counted; a longer pair makes a batch of its
            own.
        source_tokens: the same for sources; `target_tokens` when None.
    """
    order = np.argsort(length_keys(shards.source_lengths, shards.target_lengths), kind="stable")
    bounds = cut(
        shards.source_lengths[order],
        shards.target_lengths[order],
        source_tokens=target_tokens if source_tokens is None else source_tokens,
        target_tokens=target_tokens,
    )
    for start, stop in bounds:
        yield make_batch(shards, order[start:stop])
