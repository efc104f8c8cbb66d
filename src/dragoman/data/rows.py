"""Rows of ids of one padded length, so that what is computed for a text does not depend on the texts beside it.

Paper: none (infrastructure)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Int64
from torch import Tensor

from dragoman.text.subwords import Subwords

BATCH_TOKENS = 2048  # positions, padding included, computed at once
LENGTH_MULTIPLE = 16


def padded_length(length: int) -> int:
    """The next multiple."""
    return -(-length // LENGTH_MULTIPLE) * LENGTH_MULTIPLE


def runs_of_one_length(
    lengths: Sequence[int], batch_tokens: int = BATCH_TOKENS, most_rows: int | None = None
) -> Iterator[list[int]]:
    """Numbers of the rows, longest first; those of one length, as many as fit, and `most_rows` at most."""
    longest_first = sorted(range(len(lengths)), key=lambda k: -lengths[k])
    for length, group in itertools.groupby(longest_first, lambda k: lengths[k]):
        numbers = list(group)
        rows = max(1, batch_tokens // max(1, length))
        rows = rows if most_rows is None else min(rows, most_rows)
        for start in range(0, len(numbers), rows):
            yield numbers[start : start + rows]


def as_tensor(
    rows: Sequence[Sequence[int]], length: int, device: torch.device, pad_id: int = Subwords.PAD_ID
) -> Int64[Tensor, "rows length"]:
    """Rows of ids, padded to a length."""
    padded = [[*row, *[pad_id] * (length - len(row))] for row in rows]
    return torch.tensor(padded, dtype=torch.int64, device=device)
