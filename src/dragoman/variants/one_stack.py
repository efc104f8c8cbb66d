"""What the two models of one stack share: a text in, logits at each of its positions.

Paper: none (departures)

Embeddings, positions, N layers of attention over itself and a feed-forward network, the output map: all of them the parts
that a `Transformer` is made of, and whatever departs in them departs here as well. There is no second text, and so no
attention over one.

B batch, T positions, V vocabulary, d_out the width of what the output map multiplies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from dragoman.model.config import ModelConfig
from dragoman.model.dropout import dropout
from dragoman.model.embedding import output_map
from dragoman.model.initialize import initialize
from dragoman.model.layers import EncoderLayer
from dragoman.model.parts import Parts


class OneStack(nn.Module):
    """A stack with its embeddings and its output map; who sees whom is said by those made of it.

    Args:
        config: sizes and vocabulary; N layers in the one stack.
        parts: what it is made of.
        layers: the stack.
        seed: of the initial weights; None: what memory holds, for weights that are read from a file.
    """

    def __init__(
        self, config: ModelConfig, parts: Parts, layers: Sequence[EncoderLayer], *, seed: int | None
    ) -> None:
        super().__init__()
        self.config = config
        output = parts.output or parts.embedding
        embedding = output if config.tied_output else parts.embedding
        self.embedding = embedding(config.vocab_size, config.d_model)
        self.position = parts.position(config.d_model)
        self.layers = nn.ModuleList(layers)
        self.stack_end = parts.stack_end(config)
        self.untied_output = None if config.tied_output else output(config.vocab_size, config.d_model)
        if seed is not None:
            initialize(self, seed)

    @property
    def output_embedding(self) -> Any:
        """What holds the matrix of the output map: the embedding, unless untied (3.4)."""
        return self.embedding if self.untied_output is None else self.untied_output

    @property
    def output_weight(self) -> Float[Tensor, "V d_out"]:
        """The matrix of the output map."""
        weight: Tensor = self.output_embedding.output_matrix
        return weight

    def for_output(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_out"]:
        """What the output map multiplies, of what the last layer gives."""
        hidden: Tensor = self.output_embedding.for_output(self.stack_end(x))
        return hidden

    def embedded(
        self, ids: Int64[Tensor, "B T"], positions: Int64[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T d_model"]:
        """Dropout(embedding * sqrt(d_model) + position) (3.4, 3.5, 5.4)."""
        x = self.position(self.embedding(ids), positions)
        return dropout(x, self.config.P_drop, self.training)

    def through(
        self, ids: Int64[Tensor, "B T"], mask: Bool[Tensor, "#B 1 #T T"]
    ) -> Float[Tensor, "B T d_out"]:
        """All layers, each position attending where `mask` allows; what the output map multiplies."""
        self.position.rows(ids.shape[1])
        x = self.embedded(ids)
        for layer in self.layers:
            x = layer(x, mask)
        return self.for_output(x)

    def logits(self, hidden: Float[Tensor, "B T d_out"]) -> Float[Tensor, "B T V"]:
        """The output map."""
        return output_map(hidden, self.output_weight)

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the weights."""
        dtype: torch.dtype = self.embedding.weight.dtype
        return dtype
