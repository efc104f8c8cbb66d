"""Multi-head attention with places for what departures put into it.

Paper: none (departures)

Each piece is in the file of its own source; here they are joined, so that any of them go together. Without pieces it is
the paper's attention.

B batch, h heads, g groups of them, Q query positions, K key positions, d_k, d_v as in the paper, n hypotheses of a
sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dragoman.model.attention import attend, join_heads, split_heads
from dragoman.model.cache import LayerCache
from dragoman.model.config import ModelShape
from dragoman.model.initialize import glorot_uniform_
from dragoman.model.linear import linear
from dragoman.variants.dropouts import attend_dropped
from dragoman.variants.grouped_query import as_heads, as_more_queries, for_more_queries
from dragoman.variants.projection_biases import ProjectionBiases
from dragoman.variants.query_key_norm import QueryKeyNorm
from dragoman.variants.relative_position import RelativePositions
from dragoman.variants.rope import Rotation

Heads = Float[Tensor, "B h L d"]


@dataclass(frozen=True)
class Pieces:
    """What is other than in the paper.

    Attributes:
        groups: heads of keys and values, each of which serves as many heads of queries; None: one for each.
        has_biases: on the four projections.
        P_weights: dropout on the weights, while training.
        norm: makes queries and keys of one length.
        relative: attends by distances too; of attention over itself.
        rotation: turns queries and keys by their positions; of attention over itself.
    """

    groups: int | None = None
    has_biases: bool = False
    P_weights: float = 0.0
    norm: Callable[[ModelShape], QueryKeyNorm] | None = None
    relative: Callable[[ModelShape], RelativePositions] | None = None
    rotation: Callable[[ModelShape], Rotation] | None = None


NONE = Pieces()


class OpenAttention(nn.Module):
    """Concat(head_1..head_h) W^O, as `model.attention.MultiHeadAttention`, with pieces.

    Args:
        shape: sizes (d_model, h, d_k, d_v).
        pieces: what is other than in the paper.
    """

    def __init__(self, shape: ModelShape, pieces: Pieces) -> None:
        super().__init__()
        self.h, self.d_k, self.d_v = shape.h, shape.d_k, shape.d_v
        self.groups = shape.h if pieces.groups is None else pieces.groups
        self.P_weights = pieces.P_weights
        self.W_QKV = nn.Parameter(torch.empty(sum(self.widths()), shape.d_model))
        self.W_O = nn.Parameter(torch.empty(shape.d_model, self.h * self.d_v))
        self.biases = ProjectionBiases(sum(self.widths()), shape.d_model) if pieces.has_biases else None
        self.norm = None if pieces.norm is None else pieces.norm(shape)
        self.relative = None if pieces.relative is None else pieces.relative(shape)
        self.rotation = None if pieces.rotation is None else pieces.rotation(shape)

    def widths(self) -> list[int]:
        """Rows of `W_QKV` that make queries, keys and values."""
        return [self.h * self.d_k, self.groups * self.d_k, self.groups * self.d_v]

    def matrices(self) -> list[Tensor]:
        """W^Q, W^K, W^V (all heads together) and W^O, as views."""
        return [*self.W_QKV.split_with_sizes(self.widths()), self.W_O]

    def initialize(self, generator: torch.Generator) -> None:
        """Glorot uniform, of the matrices that `model.initialize` takes as one."""
        for matrices in self.taken_as_one():
            glorot_uniform_(matrices, generator)
        glorot_uniform_([self.W_O], generator)

    def taken_as_one(self) -> list[list[Tensor]]:
        """W^Q, W^K and W^V, where one product makes them."""
        return [self.matrices()[:3]]

    def self_projections(self, x: Float[Tensor, "B L d_model"], first: int = 0) -> tuple[Heads, Heads, Heads]:
        """Queries, keys and values of one sequence, whose first position is `first`."""
        Q, K, V = self._projections(x, slice(None)).split_with_sizes(self.widths(), dim=-1)
        return self._queries(Q, first), self._keys(K, first), split_heads(V, self.groups)

    def queries(self, x: Float[Tensor, "B Q d_model"]) -> Heads:
        """Queries to another sequence."""
        return self._queries(self._projections(x, slice(None, self.h * self.d_k)), 0)

    def keys_values(self, y: Float[Tensor, "B K d_model"]) -> tuple[Heads, Heads]:
        """Keys and values of another sequence."""
        KV = self._projections(y, slice(self.h * self.d_k, None))
        K, V = KV.split_with_sizes(self.widths()[1:], dim=-1)
        return self._keys(K, 0), split_heads(V, self.groups)

    def _projections(self, x: Tensor, rows: slice) -> Tensor:
        """By these rows of `W_QKV`."""
        return linear(x, self.W_QKV[rows], None if self.biases is None else self.biases.b_QKV[rows])

    def _queries(self, Q: Tensor, first: int) -> Tensor:
        heads = split_heads(Q, self.h)
        heads = heads if self.norm is None else self.norm.queries(heads)
        return heads if self.rotation is None else self.rotation(heads, first)

    def _keys(self, K: Tensor, first: int) -> Tensor:
        heads = split_heads(K, self.groups)
        heads = heads if self.norm is None else self.norm.keys(heads)
        return heads if self.rotation is None else self.rotation(heads, first)

    def attend(
        self,
        Q: Float[Tensor, "B h Q d_k"],
        K: Float[Tensor, "B g K d_k"],
        V: Float[Tensor, "B g K d_v"],
        mask: Bool[Tensor, "#B 1 #Q K"] | None,
        first: int = 0,
    ) -> Float[Tensor, "B h Q d_v"]:
        """Eq. 1, the heads of a group being queries to the same keys; the first query stands at key `first`."""
        P_drop = self.P_weights if self.training else 0.0
        if self.relative is not None:
            times = self.h // self.groups
            K, V = K.repeat_interleave(times, dim=1), V.repeat_interleave(times, dim=1)
            heads: Tensor = self.relative(Q, K, V, mask, first=first, P_drop=P_drop)
            return heads
        Q, mask = as_more_queries(Q, self.groups), for_more_queries(mask, self.h // self.groups)
        shared = attend(Q, K, V, mask) if P_drop == 0.0 else attend_dropped(Q, K, V, mask, P_drop)
        return as_heads(shared, self.h)

    def output(self, heads: Heads) -> Float[Tensor, "B L d_model"]:
        """Concat(head_1..head_h) W^O."""
        return linear(join_heads(heads), self.W_O, None if self.biases is None else self.biases.b_O)

    def forward(
        self,
        x: Float[Tensor, "B Q d_model"],
        y: Float[Tensor, "B K d_model"] | None = None,
        mask: Bool[Tensor, "#B 1 #Q K"] | None = None,
    ) -> Float[Tensor, "B Q d_model"]:
        """Attention of x over y, or of x over itself where y is None."""
        if y is None:
            Q, K, V = self.self_projections(x)
        else:
            Q, (K, V) = self.queries(x), self.keys_values(y)
        return self.output(self.attend(Q, K, V, mask))

    def step(self, x: Float[Tensor, "B n d_model"], cache: LayerCache) -> Float[Tensor, "B n d_model"]:
        """Attention of the newest position of each hypothesis over its prefix, which the cache holds."""
        first = cache.length
        Q, K, V = self.self_projections(x.reshape(-1, 1, x.shape[-1]), first)
        return self.output(self.attend(Q, *cache.append(K, V), None, first)).view_as(x)

    def step_across(self, x: Float[Tensor, "B n d_model"], cache: LayerCache) -> Float[Tensor, "B n d_model"]:
        """Attention of the hypotheses, as queries beside each other, over their source's keys and values."""
        heads = self.attend(self.queries(x), cache.source_K, cache.source_V, cache.source_mask)
        return self.output(heads)


class OpenAttentionToSource(OpenAttention):
    """The same over the encoder's output, whose keys and values are made apart."""

    def taken_as_one(self) -> list[list[Tensor]]:
        """W^Q; W^K and W^V."""
        [[W_Q, W_K, W_V]] = super().taken_as_one()
        return [[W_Q], [W_K, W_V]]
