"""Scaled dot-product attention and its gradient by the kernels in C++.

Paper: 3.2.1 (Eq. 1)

A head of a sentence is small enough to stay in the first cache from its queries to its result; products, softmax and
weighted sum are done there in float32, reading the heads where the projection has left them. The equations are those of
`attention_direct`.

B batch, h heads, Q query positions, K key positions, d_k, d_v as in the paper.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from dragoman.native import Kernels


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: Kernels, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None) -> Tensor:
        ctx.kernels, ctx.scale = kernels, 1.0 / math.sqrt(Q.shape[-1])
        mask = None if mask is None else mask.contiguous()
        heads, weights = kernels.attention_forward(Q, K, V, mask, ctx.scale)
        ctx.save_for_backward(Q, K, V, weights)
        return heads

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        G = upstream[0] if upstream[0].stride(3) == 1 else upstream[0].contiguous()
        Q, K, V, weights = ctx.saved_tensors
        return (None, *ctx.kernels.attention_backward(G, Q, K, V, weights, ctx.scale), None)


def attend_native(
    kernels: Kernels,
    Q: Float[Tensor, "B h Q d_k"],
    K: Float[Tensor, "B h K d_k"],
    V: Float[Tensor, "B h K d_v"],
    mask: Bool[Tensor, "#B 1 #Q K"] | None = None,
) -> Float[Tensor, "B h Q d_v"]:
    """Eq. 1; the values and gradients of the written-out form, each rounded once. No gradients of gradients."""
    heads: Tensor = _Attend.apply(kernels, Q, K, V, mask)  # type: ignore[no-untyped-call]
    return heads
