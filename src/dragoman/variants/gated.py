"""Feed-forward networks of two maps, one of which opens and shuts the other.

Later: Shazeer 2020, "GLU Variants Improve Transformer", arXiv:2002.05202
Silent: rounding of two thirds of d_ff (down); GELU (exact, by the error function); initial values (Glorot uniform, as the
paper's matrices).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.config import ModelShape
from dragoman.model.dropout import dropout
from dragoman.model.initialize import glorot_uniform_
from dragoman.model.linear import linear
from dragoman.variants.elementwise import elementwise

Gate = Callable[[Tensor], Tensor]

# By the names of section 2 of its paper; swish_1 is also called SiLU.
GATES: dict[str, Gate] = {"glu": torch.sigmoid, "geglu": F.gelu, "swiglu": F.silu}


def gated_width(d_ff: int, rule: Literal["kept", "two_thirds"]) -> int:
    """The inner width: d_ff, or two thirds of it, which costs as many parameters as a network of two matrices."""
    return d_ff if rule == "kept" else 2 * d_ff // 3


class GatedFeedForward(nn.Module):
    """FFN(x) = (gate(x W) * x V) W_2, at each position alike, without biases.

    Args:
        shape: sizes.
        gate: of `GATES`.
        width: columns of W and V.
        P_drop: dropout on what the gate lets through, while training.
    """

    def __init__(self, shape: ModelShape, gate: Gate, width: int, P_drop: float = 0.0) -> None:
        super().__init__()
        self.gate, self.P_drop = gate, P_drop
        self.W = nn.Parameter(torch.empty(width, shape.d_model))
        self.V = nn.Parameter(torch.empty(width, shape.d_model))
        self.W_2 = nn.Parameter(torch.empty(shape.d_model, width))

    def initialize(self, generator: torch.Generator) -> None:
        """Glorot uniform, each matrix by its own sizes."""
        for matrix in (self.W, self.V, self.W_2):
            glorot_uniform_([matrix], generator)

    def inner(self, x: Float[Tensor, "*B d_model"]) -> Float[Tensor, "*B width"]:
        """gate(x W) * x V."""
        return elementwise(self.gate, linear(x, self.W)) * linear(x, self.V)

    def forward(self, x: Float[Tensor, "*B d_model"]) -> Float[Tensor, "*B d_model"]:
        """Applies the network to the last dimension."""
        return linear(dropout(self.inner(x), self.P_drop, self.training), self.W_2)
