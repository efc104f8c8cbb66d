"""Scaled dot-product attention, written out and fused, and multi-head attention made of it.

Paper: 3.2, 3.2.1 (Eq. 1), 3.2.2, 3.2.3, Figure 2
Silent: biases on the projections (none, as tensor2tensor `multihead_attention`, use_bias=False); a query
with no legal key (its output is zero). Dropout on the weights is not in the paper and not here.

B batch, h heads, Q query positions, K key positions, d_k, d_v as in the paper, L positions of one sequence, n
hypotheses of a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dragoman.model.attention_direct import attend_direct
from dragoman.model.attention_native import attend_native
from dragoman.model.cache import LayerCache
from dragoman.model.config import ModelShape
from dragoman.model.linear import linear
from dragoman.native import kernels_for

Heads = Float[Tensor, "B h L d"]
HeadsK = Float[Tensor, "B h L d_k"]
HeadsV = Float[Tensor, "B h L d_v"]
Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]

# Below this many keys the written-out form is the faster one on a CPU (its matrices stay in the cache).
FUSED_FROM_KEYS = 256


def attention_weights(
    Q: Float[Tensor, "B h Q d_k"],
    K: Float[Tensor, "#B h K d_k"],
    mask: Bool[Tensor, "#B #h #Q K"] | None = None,
) -> Float[Tensor, "B h Q K"]:
    """softmax(Q K^T / sqrt(d_k)) over the keys; illegal keys have weight 0 (3.2.1, 3.2.3).

    A row without a legal key is all zeros, and so is its gradient.
    """
    return masked_softmax((Q * (1.0 / math.sqrt(Q.shape[-1]))) @ K.transpose(-2, -1), mask)


def masked_softmax(
    scores: Float[Tensor, "B h Q K"], mask: Bool[Tensor, "#B #h #Q K"] | None
) -> Float[Tensor, "B h Q K"]:
    """Softmax of each row over the keys that are legal; a row without one is all zeros. Writes into `scores`."""
    if mask is None:
        return scores.softmax(dim=-1)
    # -inf is added to the illegal scores, not filled in: a sum needs no pass of its own in the backward direction.
    # A row without a legal key is left as it is and zeroed after, so that no NaN comes into it or its gradient.
    dead = ~mask.any(dim=-1, keepdim=True)
    bias = torch.zeros_like(mask, dtype=scores.dtype).masked_fill_(~(mask | dead), -math.inf)
    weights = scores.add_(bias).softmax(dim=-1)
    return weights.masked_fill(dead, 0.0) if dead.any() else weights


def attend_written_out(
    Q: Float[Tensor, "B h Q d_k"],
    K: Float[Tensor, "#B h K d_k"],
    V: Float[Tensor, "#B h K d_v"],
    mask: Bool[Tensor, "#B #h #Q K"] | None = None,
) -> Float[Tensor, "B h Q d_v"]:
    """Eq. 1 as it stands: softmax(Q K^T / sqrt(d_k)) V."""
    return attention_weights(Q, K, mask) @ V


def attend_fused(
    Q: Float[Tensor, "B h Q d_k"],
    K: Float[Tensor, "#B h K d_k"],
    V: Float[Tensor, "#B h K d_v"],
    mask: Bool[Tensor, "#B #h #Q K"] | None = None,
) -> Float[Tensor, "B h Q d_v"]:
    """Eq. 1 in one kernel that never writes the weights down; the same values and gradients."""
    if mask is None:
        return F.scaled_dot_product_attention(Q, K, V)
    # What a fused kernel gives for a row without a legal key depends on the kernel; let such rows attend
    # everywhere and zero them after.
    dead = ~mask.any(dim=-1, keepdim=True)
    return F.scaled_dot_product_attention(Q, K, V, attn_mask=mask | dead).masked_fill(dead, 0.0)


def attend(
    Q: Float[Tensor, "B h Q d_k"],
    K: Float[Tensor, "#B h K d_k"],
    V: Float[Tensor, "#B h K d_v"],
    mask: Bool[Tensor, "#B #h #Q K"] | None = None,
) -> Float[Tensor, "B h Q d_v"]:
    """Eq. 1 by whichever of its forms is the fastest for these shapes and this device."""
    if Q.is_cuda or K.shape[-2] >= FUSED_FROM_KEYS:
        return attend_fused(Q, K, V, mask)
    if torch.is_grad_enabled() and Q.requires_grad and Q.shape[0] == K.shape[0]:
        kernels = kernels_for(Q)
        if kernels is not None and (mask is None or mask.shape[1] == 1):
            return attend_native(kernels, Q, K, V, mask)
        return attend_direct(Q, K, V, mask)
    return attend_written_out(Q, K, V, mask)


def split_heads(x: Float[Tensor, "B L hd"], h: int) -> Float[Tensor, "B h L d"]:
    """(B, L, h*d) -> (B, h, L, d): head i is the i-th slice of the width."""
    B, L, width = x.shape
    return x.view(B, L, h, width // h).transpose(1, 2)


def join_heads(x: Float[Tensor, "B h L d"]) -> Float[Tensor, "B L hd"]:
    """Concat(head_1, ..., head_h): the inverse of `split_heads`."""
    B, h, L, d = x.shape
    return x.transpose(1, 2).reshape(B, L, h * d)


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1..head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    The matrices W_i^Q, W_i^K, W_i^V of all heads lie in one `W_QKV`, rows in that order (as `linear` has
    it, each is the paper's matrix transposed): one product serves where queries, keys and values come from
    the same place.

    Args:
        shape: sizes (d_model, h, d_k, d_v).
        attend: Eq. 1, in any of its forms.
    """

    def __init__(self, shape: ModelShape, attend: Attend = attend) -> None:
        super().__init__()
        self.h, self.d_k, self.d_v = shape.h, shape.d_k, shape.d_v
        self.attend = attend
        self.W_QKV = nn.Parameter(torch.empty(self.h * (2 * self.d_k + self.d_v), shape.d_model))
        self.W_O = nn.Parameter(torch.empty(shape.d_model, self.h * self.d_v))

    def matrices(self) -> list[Tensor]:
        """W^Q, W^K, W^V (all heads together) and W^O, as views: what an initializer and a reader want."""
        return [*self.W_QKV.split_with_sizes(self.widths()), self.W_O]

    def widths(self) -> list[int]:
        """Rows of `W_QKV` that make queries, keys and values."""
        return [self.h * self.d_k, self.h * self.d_k, self.h * self.d_v]

    def self_projections(self, x: Float[Tensor, "B L d_model"]) -> tuple[HeadsK, HeadsK, HeadsV]:
        """Queries, keys and values of one sequence, by a single product."""
        Q, K, V = linear(x, self.W_QKV).split_with_sizes(self.widths(), dim=-1)
        return split_heads(Q, self.h), split_heads(K, self.h), split_heads(V, self.h)

    def queries(self, x: Float[Tensor, "B Q d_model"]) -> HeadsK:
        """x W^Q, split into heads."""
        return split_heads(linear(x, self.W_QKV[: self.h * self.d_k]), self.h)

    def keys_values(self, y: Float[Tensor, "B K d_model"]) -> tuple[HeadsK, HeadsV]:
        """y W^K and y W^V, split into heads."""
        K, V = linear(y, self.W_QKV[self.h * self.d_k :]).split_with_sizes(self.widths()[1:], dim=-1)
        return split_heads(K, self.h), split_heads(V, self.h)

    def output(self, heads: Heads) -> Float[Tensor, "B L d_model"]:
        """Concat(head_1..head_h) W^O."""
        return linear(join_heads(heads), self.W_O)

    def forward(
        self,
        x: Float[Tensor, "B Q d_model"],
        y: Float[Tensor, "B K d_model"] | None = None,
        mask: Bool[Tensor, "#B #h #Q K"] | None = None,
    ) -> Float[Tensor, "B Q d_model"]:
        """Attention of x over y, or of x over itself where y is None."""
        if y is None:
            Q, K, V = self.self_projections(x)
        else:
            Q, (K, V) = self.queries(x), self.keys_values(y)
        return self.output(self.attend(Q, K, V, mask))

    def step(self, x: Float[Tensor, "B n d_model"], cache: LayerCache) -> Float[Tensor, "B n d_model"]:
        """Attention of the newest position of each hypothesis over its prefix, which the cache holds."""
        Q, K, V = self.self_projections(x.reshape(-1, 1, x.shape[-1]))
        return self.output(self.attend(Q, *cache.append(K, V), None)).view_as(x)

    def step_across(self, x: Float[Tensor, "B n d_model"], cache: LayerCache) -> Float[Tensor, "B n d_model"]:
        """Attention of the hypotheses, as queries beside each other, over their source's keys and values."""
        heads = self.attend(self.queries(x), cache.source_K, cache.source_V, cache.source_mask)
        return self.output(heads)
