"""The position-wise feed-forward network.

Paper: 3.3 (Eq. 2)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.config import ModelShape
from dragoman.model.linear import linear


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, at each position alike."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.W_1 = nn.Parameter(torch.empty(shape.d_ff, shape.d_model))
        self.b_1 = nn.Parameter(torch.empty(shape.d_ff))
        self.W_2 = nn.Parameter(torch.empty(shape.d_model, shape.d_ff))
        self.b_2 = nn.Parameter(torch.empty(shape.d_model))

    def inner(self, x: Float[Tensor, "*B d_model"]) -> Float[Tensor, "*B d_ff"]:
        """max(0, x W_1 + b_1)."""
        return F.relu(linear(x, self.W_1, self.b_1))

    def forward(self, x: Float[Tensor, "*B d_model"]) -> Float[Tensor, "*B d_model"]:
        """Applies the network to the last dimension."""
        return linear(self.inner(x), self.W_2, self.b_2)
