"""Embeddings to which no position is added, for models whose attention knows of places itself.

Paper: none (departures)
"""

from __future__ import annotations

from jaxtyping import Float, Int64
from torch import Tensor, nn


class NoPosition(nn.Module):
    """Gives embeddings back as they are."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def rows(self, length: int) -> None:
        """There is no table to grow."""

    def forward(
        self, x: Float[Tensor, "B L d_model"], positions: Int64[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B L d_model"]:
        """x."""
        return x
