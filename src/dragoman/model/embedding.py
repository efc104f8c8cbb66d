"""Token embeddings, scaled by sqrt(d_model), and the output map that shares their matrix.

Paper: 3.4
Silent: a bias on the output map (none, as tensor2tensor); the embedding of padding (an ordinary row: no real
position ever attends to it, so that its value cannot matter).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from dragoman.model.linear import linear


class Embedding(nn.Module):
    """E[ids] * sqrt(d_model)."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.scale = math.sqrt(d_model)

    def forward(self, ids: Int64[Tensor, "*B"]) -> Float[Tensor, "*B d_model"]:
        """Looks the tokens up and scales them."""
        # The gradient of a frequent token is a sum of very many terms, which 16 bits would not hold: it is summed in
        # float32 at least, by looking up in a wider copy (of the same values).
        wide = self.weight if self.weight.dtype == torch.float64 else self.weight.float()
        return (F.embedding(ids, wide) * self.scale).to(self.weight.dtype)

    @property
    def output_matrix(self) -> Float[Tensor, "V d_model"]:
        """The matrix of the output map, where this one is it."""
        return self.weight

    def for_output(self, x: Float[Tensor, "*B d_model"]) -> Float[Tensor, "*B d_model"]:
        """What the output map multiplies with it: x as it is."""
        return x


def output_map(x: Float[Tensor, "*B d_out"], weight: Float[Tensor, "V d_out"]) -> Float[Tensor, "*B V"]:
    """The pre-softmax linear transformation: logits = x E^T, unscaled."""
    return linear(x, weight)
