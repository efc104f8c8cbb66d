"""A learned vector on each embedded source token, which stood for what to translate into.

Later: Vaswani et al. 2018 (tensor2tensor, use_target_space_embedding), arXiv:1803.07416
Silent: how many there are (one: a model here has one target language); initial values (as a row of an embedding).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.config import ModelShape


class TargetSpace(nn.Module):
    """x + v, before positions are added."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.empty(shape.d_model))

    def initialize(self, generator: torch.Generator) -> None:
        """Normal, of deviation d_model^-0.5."""
        self.vector.normal_(0.0, len(self.vector) ** -0.5, generator=generator)

    def forward(self, x: Float[Tensor, "B S d_model"]) -> Float[Tensor, "B S d_model"]:
        """Of embedded sources."""
        return x + self.vector
