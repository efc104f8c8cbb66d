"""Sub-layers whose input is normalized instead of their output.

Later: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", arXiv:2002.04745
Silent: dropout (where the paper of 2017 has it: on each sub-layer's output).

What goes from layer to layer is never normalized itself, so a norm ends each stack. Gradients are of a moderate size from
the first update on, so that the rate needs little warm-up or none.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.config import ModelShape
from dragoman.model.dropout import add_dropped
from dragoman.model.residual import SubLayer, layer_norm


class PreNorm(nn.Module):
    """x + Dropout(Sublayer(LayerNorm(x)))."""

    def __init__(self, shape: ModelShape, norm: Callable[[int], nn.Module] = layer_norm) -> None:
        super().__init__()
        self.norm = norm(shape.d_model)
        self.P_drop = shape.P_drop

    def forward(self, x: Float[Tensor, "B L d_model"], sublayer: SubLayer) -> Float[Tensor, "B L d_model"]:
        """Applies the sub-layer to x, normalized, and adds x as it was."""
        return add_dropped(x, sublayer(self.norm(x)), self.P_drop, self.training)
