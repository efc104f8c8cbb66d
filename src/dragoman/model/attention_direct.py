"""Scaled dot-product attention with its gradient written out as well.

Paper: 3.2.1 (Eq. 1)

The same products and the same softmax as `attention.attend_written_out`, in half the passes over memory: the scale goes
with the copy that makes a matrix of each head, and nothing is kept for the backward pass but what it needs. With Q' =
Q / sqrt(d_k), S = Q' K^T, W = softmax(S), O = W V and G the gradient by O:

    dV = W^T G,   dW = G V^T,   dS = W * (dW - rowsum(dW * W)),   dQ = dS K / sqrt(d_k),   dK = dS^T Q'

B batch, h heads, Q query positions, K key positions, d_k, d_v as in the paper.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# torch takes the softmax of rows shorter than a vector number by number; then it is faster across rows.
_VECTOR_BYTES = 64


def _softmax(scores: Float[Tensor, "n Q K"]) -> Float[Tensor, "n Q K"]:
    """Softmax of each row."""
    if _rows_are_short(scores):
        return _rows_inside(_rows_outside(scores).softmax(dim=1))
    return scores.softmax(dim=-1)


def _softmax_gradient(dW: Float[Tensor, "n Q K"], W: Float[Tensor, "n Q K"]) -> Float[Tensor, "n Q K"]:
    """W * (dW - rowsum(dW * W))."""
    kernel = torch.ops.aten._softmax_backward_data
    if _rows_are_short(W):
        return _rows_inside(kernel(_rows_outside(dW), _rows_outside(W), 1, W.dtype))
    gradient: Tensor = kernel(dW, W, -1, W.dtype)
    return gradient


def _rows_are_short(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.shape[-1] * x.element_size() < _VECTOR_BYTES


def _rows_outside(x: Float[Tensor, "n Q K"]) -> Float[Tensor, "Q K n"]:
    return x.permute(1, 2, 0).contiguous()


def _rows_inside(x: Float[Tensor, "Q K n"]) -> Float[Tensor, "n Q K"]:
    return x.permute(2, 0, 1).contiguous()


def _bias(legal: Bool[Tensor, "#B #h #Q K"], Q: int, dtype: torch.dtype) -> Float[Tensor, "#B #h _ K"]:
    """0 where legal, -inf elsewhere; a row for each query unless one matrix serves all (adding it is faster so)."""
    bias = torch.zeros(legal.shape, dtype=dtype, device=legal.device).masked_fill_(~legal, -math.inf)
    return bias.expand(-1, -1, Q, -1).contiguous() if len(legal) > 1 else bias


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None) -> Tensor:
        scale = 1.0 / math.sqrt(Q.shape[-1])
        heads = Q.shape[:2]
        queries = torch.mul(Q, scale, out=Q.new_empty(Q.shape)).flatten(0, 1)
        keys, values = K.flatten(0, 1), V.flatten(0, 1)
        scores = torch.bmm(queries, keys.transpose(1, 2))
        if mask is None:
            weights = _softmax(scores)
        else:
            dead = ~mask.any(dim=-1, keepdim=True)
            scores.view(*heads, *scores.shape[1:]).add_(_bias(mask | dead, Q.shape[2], Q.dtype))
            weights = _softmax(scores)
            if dead.any():
                weights.view(*heads, *weights.shape[1:]).masked_fill_(dead, 0.0)
        ctx.save_for_backward(queries, keys, values, weights)
        ctx.heads, ctx.scale = heads, scale
        return torch.bmm(weights, values).view(*heads, Q.shape[2], V.shape[3])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values, weights = ctx.saved_tensors
        G = upstream[0].flatten(0, 1)
        dV = torch.bmm(weights.transpose(1, 2), G)
        dS = _softmax_gradient(torch.bmm(G, values.transpose(1, 2)), weights)
        dQ = torch.bmm(dS, keys).mul_(ctx.scale)
        dK = torch.bmm(dS.transpose(1, 2), queries)
        return (*(d.view(*ctx.heads, *d.shape[1:]) for d in (dQ, dK, dV)), None)


def attend_direct(
    Q: Float[Tensor, "B h Q d_k"],
    K: Float[Tensor, "B h K d_k"],
    V: Float[Tensor, "B h K d_v"],
    mask: Bool[Tensor, "#B #h #Q K"] | None = None,
) -> Float[Tensor, "B h Q d_v"]:
    """Eq. 1; the same values and gradients as the written-out form. Gradients of gradients are not defined."""
    heads: Tensor = _Attend.apply(Q, K, V, mask)  # type: ignore[no-untyped-call]
    return heads
