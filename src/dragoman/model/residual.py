"""The connection around each sub-layer: dropout, residual sum, layer normalization after it.

Paper: 3.1, 5.4
Silent: LayerNorm's epsilon (1e-6) and that it has a gain and a bias (as tensor2tensor `layer_norm`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.config import ModelShape
from dragoman.model.dropout import add_dropped
from dragoman.model.residual_native import add_and_norm
from dragoman.native import kernels_for

LAYER_NORM_EPSILON = 1e-6

SubLayer = Callable[[Tensor], Tensor]


def layer_norm(d_model: int, epsilon: float = LAYER_NORM_EPSILON) -> nn.LayerNorm:
    """LayerNorm of Ba et al. 2016 over the width."""
    return nn.LayerNorm(d_model, eps=epsilon)


class PostNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x)))."""

    def __init__(self, shape: ModelShape, norm: Callable[[int], nn.Module] = layer_norm) -> None:
        super().__init__()
        self.norm = norm(shape.d_model)
        self.P_drop = shape.P_drop

    def forward(self, x: Float[Tensor, "B L d_model"], sublayer: SubLayer) -> Float[Tensor, "B L d_model"]:
        """Applies the sub-layer to x and joins the two."""
        f = sublayer(x)
        kernels = kernels_for(x)
        if kernels is not None and torch.is_grad_enabled() and isinstance(self.norm, nn.LayerNorm):
            return add_and_norm(kernels, x, f, self.norm, self.P_drop if self.training else 0.0)
        y: Tensor = self.norm(add_dropped(x, f, self.P_drop, self.training))
        return y
