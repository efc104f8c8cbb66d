"""Attention that knows how far each key is from each query, up to a distance.

Later: Shaw et al. 2018, "Self-Attention with Relative Position Representations", arXiv:1803.02155
Silent: initial values (Glorot uniform, by the sizes of each table, as tensor2tensor); attention over the encoder's output
(distances between two texts mean nothing: as the paper of 2017 has it).

    e_ij = q_i (k_j + a^K_clip(j-i))^T / sqrt(d_k),   z_i = sum_j softmax(e_i)_j (v_j + a^V_clip(j-i))

The tables a^K and a^V are the layer's own and serve all its heads. As each has few rows, a query is multiplied with all
of them at once, and the weights are summed by distance before they meet theirs.

B batch, h heads, Q query positions, K key positions, d_k, d_v as in the paper, R = 2 k + 1 distances.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from dragoman.model.attention import masked_softmax
from dragoman.model.config import ModelShape
from dragoman.model.dropout import dropout
from dragoman.model.initialize import glorot_uniform_
from dragoman.model.linear import linear


def distances(
    first: int, queries: int, keys: int, farthest: int, device: torch.device
) -> Int64[Tensor, "Q K"]:
    """Row of the tables for queries at first, first + 1, ... and keys at 0, 1, ...: clip(j - i, -k, k) + k."""
    i = torch.arange(first, first + queries, device=device)[:, None]
    j = torch.arange(keys, device=device)
    return (j - i).clamp(-farthest, farthest) + farthest


class RelativePositions(nn.Module):
    """Attention of a sequence over itself, by what its tokens are and how far apart they stand.

    Args:
        shape: sizes (d_k, d_v).
        farthest: k, beyond which distances are one.
    """

    def __init__(self, shape: ModelShape, farthest: int) -> None:
        super().__init__()
        self.farthest = farthest
        self.a_K = nn.Parameter(torch.empty(2 * farthest + 1, shape.d_k))
        self.a_V = nn.Parameter(torch.empty(2 * farthest + 1, shape.d_v))

    def initialize(self, generator: torch.Generator) -> None:
        """Glorot uniform."""
        glorot_uniform_([self.a_K], generator)
        glorot_uniform_([self.a_V], generator)

    def forward(
        self,
        Q: Float[Tensor, "B h Q d_k"],
        K: Float[Tensor, "B h K d_k"],
        V: Float[Tensor, "B h K d_v"],
        mask: Bool[Tensor, "#B 1 #Q K"] | None,
        *,
        first: int,
        P_drop: float,
    ) -> Float[Tensor, "B h Q d_v"]:
        """z, of queries whose first stands at position `first` of the keys."""
        Q = Q * (1.0 / math.sqrt(Q.shape[-1]))
        apart = distances(first, Q.shape[2], K.shape[2], self.farthest, Q.device).expand(*Q.shape[:2], -1, -1)
        by_place = _wide(linear(Q, self.a_K)).gather(-1, apart).to(Q.dtype)
        weights = dropout(masked_softmax(Q @ K.transpose(-2, -1) + by_place, mask), P_drop, training=True)
        none = _wide(weights.new_zeros(*Q.shape[:3], len(self.a_V)))
        by_distance = none.scatter_add(-1, apart, _wide(weights)).to(Q.dtype)
        return weights @ V + linear(by_distance, self.a_V.t())


def _wide(x: Tensor) -> Tensor:
    """Where many numbers are summed one by one, now or backwards, it is in float32 at least."""
    return x if x.dtype == torch.float64 else x.float()
