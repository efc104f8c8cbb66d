"""Dropout inside attention and inside the feed-forward network, beside that of 2017.

Later: Vaswani et al. 2018 (tensor2tensor, from transformer_base_v2 on), arXiv:1803.07416
Silent: nothing of translation (5.4 drops outputs of sub-layers and sums of embedding and position alone); 6.3 of the
paper speaks of dropout on attention for parsing, and does not say where in it. Here: on the weights, after the softmax.

B batch, h heads, Q query positions, K key positions, d_k, d_v as in the paper.
"""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from dragoman.model.attention import attention_weights
from dragoman.model.config import ModelShape
from dragoman.model.dropout import dropout
from dragoman.model.feed_forward import FeedForward
from dragoman.model.linear import linear


def attend_dropped(
    Q: Float[Tensor, "B h Q d_k"],
    K: Float[Tensor, "#B h K d_k"],
    V: Float[Tensor, "#B h K d_v"],
    mask: Bool[Tensor, "#B #h #Q K"] | None,
    P_drop: float,
) -> Float[Tensor, "B h Q d_v"]:
    """Dropout(softmax(Q K^T / sqrt(d_k))) V, while training."""
    return dropout(attention_weights(Q, K, mask), P_drop, training=True) @ V


class DroppedFeedForward(FeedForward):
    """FFN(x) = Dropout(max(0, x W_1 + b_1)) W_2 + b_2, at each position alike."""

    def __init__(self, shape: ModelShape, P_drop: float) -> None:
        super().__init__(shape)
        self.P_drop = P_drop

    def forward(self, x: Float[Tensor, "*B d_model"]) -> Float[Tensor, "*B d_model"]:
        """Applies the network to the last dimension."""
        return linear(dropout(self.inner(x), self.P_drop, self.training), self.W_2, self.b_2)
