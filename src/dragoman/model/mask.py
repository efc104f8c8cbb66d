"""Who may attend to whom. True = may attend, everywhere.

Paper: 3.1, 3.2.3
Silent: packing (the paper puts one sentence in a row); a packed row holds several sentences, told apart
by a segment number each, 0 for padding, and none of them sees another.

B batch, Q query positions, K key positions, S source, T target.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int64
from torch import Tensor


def padding_mask(ids: Int64[Tensor, "B K"], pad_id: int) -> Bool[Tensor, "B 1 1 K"]:
    """Every query may attend to every key that is a token (encoder and cross-attention)."""
    return (ids != pad_id)[:, None, None, :]


def causal_mask(length: int, device: torch.device | None = None) -> Bool[Tensor, "1 1 T T"]:
    """Position i may attend to positions 0..i (3.2.3, "preventing leftward information flow")."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def segment_mask(
    query_segments: Int64[Tensor, "B Q"], key_segments: Int64[Tensor, "B K"]
) -> Bool[Tensor, "B 1 Q K"]:
    """Packed rows: a query may attend to the keys of its own sentence; segment 0 is padding."""
    same = query_segments[:, :, None] == key_segments[:, None, :]
    return (same & (key_segments != 0)[:, None, :])[:, None]


def segment_positions(segments: Int64[Tensor, "B L"]) -> Int64[Tensor, "B L"]:
    """Positions that begin at 0 with each sentence of a packed row."""
    index = torch.arange(segments.shape[1], device=segments.device).expand_as(segments)
    starts = torch.ones_like(segments, dtype=torch.bool)
    starts[:, 1:] = segments[:, 1:] != segments[:, :-1]
    return index - torch.where(starts, index, 0).cummax(dim=1).values
