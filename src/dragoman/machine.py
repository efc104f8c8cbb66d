"""What this machine computes fast: measured in a moment, to choose a number format.

Paper: none (infrastructure)
"""

from __future__ import annotations

import time
from typing import Literal

import torch
import torch.nn.functional as F

# Number formats of weights and activations, by the names recipes and options give them.
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

# How many rows, and how wide: a feed-forward product of a small model.
_ROWS, _IN, _OUT = 2048, 128, 1024
# bf16 is worth its rounding only where it is clearly faster.
_WORTH = 1.3
_ROUNDS = 3


def product_rate(dtype: torch.dtype, device: torch.device, *, seconds: float = 0.03) -> float:
    """Floating-point operations a second of matrix products in this format."""
    x = torch.ones(_ROWS, _IN, dtype=dtype, device=device)
    weight = torch.ones(_OUT, _IN, dtype=dtype, device=device)

    def run(times: int) -> float:
        began = time.perf_counter()
        for _ in range(times):
            F.linear(x, weight)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - began

    run(2)
    times = max(1, int(seconds / max(run(1), 1e-6)))
    return 2.0 * _ROWS * _IN * _OUT * times / run(times)


def fast_precision(device: torch.device) -> Literal["fp32", "bf16", "fp16"]:
    """bf16 where its products are clearly faster here than those in fp32; on a GPU else fp16 where its are; else fp32."""
    if _is_clearly_faster(torch.bfloat16, device):
        return "bf16"
    return "fp16" if device.type == "cuda" and _is_clearly_faster(torch.float16, device) else "fp32"


def _is_clearly_faster(dtype: torch.dtype, device: torch.device) -> bool:
    """Than fp32."""
    try:  # in turn, and the best of each: a busy neighbor slows a single measurement of either
        rates = [(product_rate(dtype, device), product_rate(torch.float32, device)) for _ in range(_ROUNDS)]
    except RuntimeError:
        return False
    return max(narrow for narrow, _ in rates) > _WORTH * max(wide for _, wide in rates)
