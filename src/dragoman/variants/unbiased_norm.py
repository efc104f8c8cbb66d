"""A norm by the deviation of a sample: the variance is counted by d_model - 1, and epsilon is added to its root.

Later: Rush 2018, "The Annotated Transformer", Workshop for NLP Open Source Software
Silent: initial values (gain 1, bias 0, as LayerNorm's).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.residual import LAYER_NORM_EPSILON


class UnbiasedNorm(nn.Module):
    """(x - mean) / (deviation + epsilon) * gain + bias over the width.

    Args:
        d_model: the width.
        epsilon: added to the deviation.
    """

    def __init__(self, d_model: int, epsilon: float = LAYER_NORM_EPSILON) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Float[Tensor, "*B d_model"]) -> Float[Tensor, "*B d_model"]:
        """In float32 at least, as LayerNorm."""
        wide = x if x.dtype == torch.float64 else x.float()
        deviation, mean = torch.std_mean(wide, dim=-1, keepdim=True)
        normed = (wide - mean) / (deviation + self.epsilon)
        return (normed * self.weight + self.bias).to(x.dtype)
