"""Dropout.

Paper: 5.4
Silent: the resolution of P_drop (here 1/65536: 16 random bits decide about each element); the scaling of what is kept
(by 1 / (1 - P_drop) while training, so that nothing is scaled later).

On a CPU the bits are a function of one draw of torch's generator and the element's place (splitmix64, Steele et al.
2014), whatever computes them: that costs a fraction of a draw each, and is the same on any number of threads.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int16, Int64
from torch import Tensor

from dragoman import native

_LEVELS = 1 << 16
_INT64_MIN, _UINT64 = -(1 << 63), 1 << 64
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of splitmix64


def keep_mask(
    shape: torch.Size, P_drop: float, device: torch.device, dtype: torch.dtype = torch.bool
) -> Tensor:
    """True, or 1, where an element is kept: with probability 1 - P_drop (to 1/65536), from torch's generator."""
    count = shape.numel()
    kept = torch.empty(count, dtype=dtype, device=device)
    return torch.ge(random_bits(count, device), keep_threshold(P_drop), out=kept).view(shape)


def random_bits(count: int, device: torch.device) -> Int16[Tensor, " count"]:
    """16 random bits for each of `count` elements, from a draw of torch's generator."""
    if device.type != "cpu":
        drawn = torch.empty((count + 3) // 4, dtype=torch.int64, device=device).random_(_INT64_MIN, None)
        return drawn.view(torch.int16)[:count]
    seed = int(torch.empty((), dtype=torch.int64).random_(_INT64_MIN, None)) % _UINT64
    kernels = native.kernels()
    words = (kernels.random_words if kernels is not None else random_words)(seed, (count + 3) // 4)
    return words.view(torch.int16)[:count]


def random_words(seed: int, count: int) -> Int64[Tensor, " count"]:
    """64 bits for each place: splitmix64's numbers 1 .. count from the state `seed`, as signed integers."""
    z = torch.arange(1, count + 1) * _signed(_STEP) + _signed(seed)  # integers wrap around
    z = (z ^ _shifted(z, 30)) * _signed(_FIRST)
    z = (z ^ _shifted(z, 27)) * _signed(_SECOND)
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, bits: int) -> Tensor:
    """Shifted to the right, zeros following: torch's own shift repeats the sign."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def _signed(word: int) -> int:
    return word - _UINT64 if word >= _UINT64 // 2 else word


def keep_threshold(P_drop: float) -> int:
    """An element is kept if its random bits, as a signed number, are at least this."""
    # The highest level is always kept: one more would not fit 16 bits, and nothing at all would be dropped.
    return min(round(P_drop * _LEVELS), _LEVELS - 1) - _LEVELS // 2


def drawn(count: int, P_drop: float) -> native.Dropped | None:
    """Which of `count` elements dropout keeps, as the kernels want it; None where it keeps all."""
    if P_drop == 0.0:
        return None
    bits = random_bits(count, torch.device("cpu"))
    return native.Dropped(bits, keep_threshold(P_drop), 1.0 / (1.0 - P_drop))


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
