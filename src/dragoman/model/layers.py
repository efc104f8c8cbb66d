"""Encoder and decoder layers, and the stacks of N of them.

Paper: 3.1, 3.2.3, Figure 1

B batch, S source positions, T target positions, K hypotheses of a sentence.
"""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor, nn

from dragoman.model.cache import LayerCache
from dragoman.model.config import ModelShape
from dragoman.model.parts import Parts


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(self, shape: ModelShape, parts: Parts) -> None:
        super().__init__()
        self.self_attention = parts.attention(shape)
        self.feed_forward = parts.feed_forward(shape)
        self.residual_1 = parts.residual(shape)
        self.residual_2 = parts.residual(shape)

    def forward(
        self, x: Float[Tensor, "B S d_model"], mask: Bool[Tensor, "#B 1 #S S"]
    ) -> Float[Tensor, "B S d_model"]:
        """x attends to itself where `mask` allows."""
        x = self.residual_1(x, lambda y: self.self_attention(y, mask=mask))
        y: Tensor = self.residual_2(x, self.feed_forward)
        return y


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, then the feed-forward network."""

    def __init__(self, shape: ModelShape, parts: Parts) -> None:
        super().__init__()
        self.self_attention = (parts.decoder_attention or parts.attention)(shape)
        self.cross_attention = (parts.cross_attention or parts.attention)(shape)
        self.feed_forward = parts.feed_forward(shape)
        self.residual_1 = parts.residual(shape)
        self.residual_2 = parts.residual(shape)
        self.residual_3 = parts.residual(shape)

    def forward(
        self,
        x: Float[Tensor, "B T d_model"],
        memory: Float[Tensor, "B S d_model"],
        mask: Bool[Tensor, "#B 1 T T"],
        source_mask: Bool[Tensor, "B 1 #T S"] | None,
    ) -> Float[Tensor, "B T d_model"]:
        """x attends to itself where `mask` allows and to the encoder's output where `source_mask` does."""
        x = self.residual_1(x, lambda y: self.self_attention(y, mask=mask))
        x = self.residual_2(x, lambda y: self.cross_attention(y, memory, source_mask))
        y: Tensor = self.residual_3(x, self.feed_forward)
        return y

    def start(self, memory: Float[Tensor, "B S d_model"], source_mask: Bool[Tensor, "B 1 1 S"]) -> LayerCache:
        """The cache before the first step: the source's keys and values."""
        K, V = self.cross_attention.keys_values(memory)
        return LayerCache.empty(K.contiguous(), V.contiguous(), source_mask)

    def step(self, x: Float[Tensor, "B K d_model"], cache: LayerCache) -> Float[Tensor, "B K d_model"]:
        """`forward` for the newest position of K hypotheses a sentence, the older ones being in `cache`.

        In the cross-attention the hypotheses are query positions, so that keys and values of the source
        are shared by them.
        """
        x = self.residual_1(x, lambda y: self.self_attention.step(y, cache))
        x = self.residual_2(x, lambda y: self.cross_attention.step_across(y, cache))
        y: Tensor = self.residual_3(x, self.feed_forward)
        return y
