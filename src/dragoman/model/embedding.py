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


class Embedding(nn.Module):
    """E[ids] * sqrt(d_model)."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.scale = math.sqrt(d_model)

    def forward(self, ids: Int64[Tensor, "*B"]) -> Float[Tensor, "*B d_model"]:
        """Looks the tokens up and scales them."""
        return F.embedding(ids, self.weight) * self.scale


def output_map(
    x: Float[Tensor, "*B d_model"], weight: Float[Tensor, "V d_model"]
) -> Float[Tensor, "*B V"]:
    """The pre-softmax linear transformation: logits = x E^T, unscaled."""
    return F.linear(x, weight)
