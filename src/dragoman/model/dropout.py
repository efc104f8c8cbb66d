"""Dropout.

Paper: 5.4
Silent: the resolution of P_drop (here 1/65536: 16 random bits decide about each element, four elements a 64-bit draw,
which costs a CPU about a quarter of a Bernoulli draw each); the scaling of what is kept (by 1 / (1 - P_drop)
while training, so that nothing is scaled later).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int16
from torch import Tensor

_LEVELS = 1 << 16
_INT64_MIN = -(1 << 63)


def keep_mask(
    shape: torch.Size, P_drop: float, device: torch.device, dtype: torch.dtype = torch.bool
) -> Tensor:
    """True, or 1, where an element is kept: with probability 1 - P_drop (to 1/65536), from torch's generator."""
    count = shape.numel()
    kept = torch.empty(count, dtype=dtype, device=device)
    return torch.ge(random_bits(count, device), keep_threshold(P_drop), out=kept).view(shape)


def random_bits(count: int, device: torch.device) -> Int16[Tensor, " count"]:
    """16 random bits for each of `count` elements, from torch's generator."""
    drawn = torch.empty((count + 3) // 4, dtype=torch.int64, device=device).random_(_INT64_MIN, None)
    return drawn.view(torch.int16)[:count]


def keep_threshold(P_drop: float) -> int:
    """An element is kept if its random bits, as a signed number, are at least this."""
    # The highest level is always kept: one more would not fit 16 bits, and nothing at all would be dropped.
    return min(round(P_drop * _LEVELS), _LEVELS - 1) - _LEVELS // 2


def add_dropped(
    x: Float[Tensor, "*B d"], y: Float[Tensor, "*B d"], P_drop: float, training: bool
) -> Float[Tensor, "*B d"]:
    """x + Dropout(y), in one pass, and rounded once to the number format."""
    if not training or P_drop == 0.0 or y.is_cuda:
        return x + dropout(y, P_drop, training)
    return torch.addcmul(x, y, keep_mask(y.shape, P_drop, y.device, y.dtype), value=1.0 / (1.0 - P_drop))


def dropout(x: Float[Tensor, "*B d"], P_drop: float, training: bool) -> Float[Tensor, "*B d"]:
    """Sets elements to zero with probability P_drop and scales the others, while training."""
    if not training or P_drop == 0.0:
        return x
    if x.is_cuda:
        return F.dropout(x, P_drop, training=True)
    return x * keep_mask(x.shape, P_drop, x.device, x.dtype).mul_(1.0 / (1.0 - P_drop))
