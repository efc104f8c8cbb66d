"""A bias on the logits.

Later: Junczys-Dowmunt et al. 2018 (Marian), arXiv:1804.00344
Silent: initial values (0).

The bias is one more column of the output map's matrix, and the decoder's output has a one there: so whatever is made of
the two, logits or loss, has the bias in it and needs no word of it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.embedding import Embedding


class BiasedEmbedding(Embedding):
    """The matrix of the output map, with a bias for each token."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__(vocab_size, d_model)
        self.bias = nn.Parameter(torch.empty(vocab_size))

    def initialize(self, generator: torch.Generator) -> None:
        """Rows as every embedding's, biases zero."""
        self.weight.normal_(0.0, self.weight.shape[1] ** -0.5, generator=generator)
        self.bias.zero_()

    @property
    def output_matrix(self) -> Float[Tensor, "V d_out"]:
        """The rows, each with its bias behind."""
        return torch.cat([self.weight, self.bias[:, None]], dim=1)

    def for_output(self, x: Float[Tensor, "*B d_model"]) -> Float[Tensor, "*B d_out"]:
        """x with a one behind."""
        return F.pad(x, (0, 1), value=1.0)
