"""LayerNorm(x + Dropout(f)) and its gradient by the kernels in C++, each in one pass over memory.

Paper: 3.1, 5.4
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.dropout import drawn
from dragoman.native import Kernels


class _AddAndNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        kernels: Kernels,
        x: Tensor,
        f: Tensor,
        gain: Tensor,
        bias: Tensor,
        epsilon: float,
        P_drop: float,
    ) -> Tensor:
        x, f = x.contiguous(), f.contiguous()
        dropped = drawn(f.numel(), P_drop)
        y, z, mean, deviation = kernels.residual_forward(x, f, dropped, gain, bias, epsilon)
        ctx.kernels, ctx.dropped = kernels, dropped
        ctx.save_for_backward(z, mean, deviation, gain)
        return y

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        z, mean, deviation, gain = ctx.saved_tensors
        dx, df, d_gain, d_bias = ctx.kernels.residual_backward(
            upstream[0].contiguous(), z, mean, deviation, gain, ctx.dropped
        )
        return None, dx, df, d_gain.to(gain.dtype), d_bias.to(gain.dtype), None, None


def add_and_norm(
    kernels: Kernels, x: Float[Tensor, "*B d"], f: Float[Tensor, "*B d"], norm: nn.LayerNorm, P_drop: float
) -> Float[Tensor, "*B d"]:
    """`norm(x + Dropout(f))`, with the random numbers of `dropout.add_dropped`. No gradients of gradients."""
    y: Tensor = _AddAndNorm.apply(  # type: ignore[no-untyped-call]
        kernels, x, f, norm.weight, norm.bias, norm.eps, P_drop
    )
    return y
