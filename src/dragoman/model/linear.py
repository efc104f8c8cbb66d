"""A linear map whose result for a row does not depend on how many rows are beside it.

Paper: none (numerics)
Silent: the order in which a product is summed. BLAS takes another kernel, and so another order, where there are few rows
(below 16) and, with several threads, where a sum is long (over 512 terms); one sentence alone would then differ in
its last bits from the same among many, and now and then in a word. So, in float32 on a CPU and where no gradient is
wanted, a product has at least 16 rows, and long sums are done in parts of 512.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

FEWEST_ROWS = 16
LONGEST_SUM = 512


def linear(
    x: Float[Tensor, "*B d_in"],
    weight: Float[Tensor, "d_out d_in"],
    bias: Float[Tensor, " d_out"] | None = None,
) -> Float[Tensor, "*B d_out"]:
    """x weight^T + bias."""
    if torch.is_grad_enabled() or x.device.type != "cpu" or x.dtype != torch.float32:
        return F.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    count = len(rows)
    if count < FEWEST_ROWS:
        rows = F.pad(rows, (0, 0, 0, FEWEST_ROWS - count))
    result = F.linear(rows[:, :LONGEST_SUM], weight[:, :LONGEST_SUM], bias)
    for start in range(LONGEST_SUM, x.shape[-1], LONGEST_SUM):
        part = slice(start, start + LONGEST_SUM)
        result += F.linear(rows[:, part], weight[:, part])
    return result[:count].view(*x.shape[:-1], len(weight))
