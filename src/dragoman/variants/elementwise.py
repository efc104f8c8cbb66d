"""Functions of single numbers whose result does not depend on where a number stands.

Paper: none (numerics)
Silent: the last bit of a sigmoid or an error function. A processor takes many numbers at once, and what is left at the
end one by one, by another formula: a sentence alone would then differ in its last bits from the same among many. So,
in float32 on a CPU and where no gradient is wanted, there is nothing left at the end.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

AT_ONCE = 64  # a multiple of what any processor takes at once
BLOCK = 32_768 - AT_ONCE  # torch divides what is longer among threads, at any place


def elementwise(function: Callable[[Tensor], Tensor], x: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    """function(x), where that is of each element by itself."""
    if torch.is_grad_enabled() or x.device.type != "cpu" or x.dtype != torch.float32:
        return function(x)
    flat = F.pad(x.reshape(-1), (0, -x.numel() % AT_ONCE))
    results = torch.cat([function(block) for block in torch.split(flat, BLOCK)])
    return results[: x.numel()].view(x.shape)
