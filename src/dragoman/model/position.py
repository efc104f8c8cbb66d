"""Sinusoidal positions, interleaved, with the paper's wavelengths.

Paper: 3.5
Silent: the number of the first position (0, as tensor2tensor).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

INITIAL_LENGTH = 512


def sinusoids(length: int, d_model: int) -> Float[Tensor, "length d_model"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(the same); in float64."""
    pos = torch.arange(length, dtype=torch.float64)[:, None]
    two_i = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = pos / 10000.0 ** (two_i / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).view(length, d_model)


class SinusoidalPosition(nn.Module):
    """Adds PE to the embeddings. There is no longest position: the table grows when one is asked for."""

    table: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.register_buffer("table", self.computed(INITIAL_LENGTH).float(), persistent=False)

    def computed(self, length: int) -> Float[Tensor, "length d_model"]:
        """The table of so many rows."""
        return sinusoids(length, self.d_model)

    def rows(self, length: int) -> Float[Tensor, "length d_model"]:
        """PE(0..length-1)."""
        if length > self.table.shape[0]:
            # Grown while translating, the table must still be an ordinary tensor when training goes on.
            with torch.inference_mode(False):
                grown = self.computed(max(length, 2 * self.table.shape[0]))
                self.table = grown.to(self.table)
        return self.table[:length]

    def forward(
        self, x: Float[Tensor, "B L d_model"], positions: Int64[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B L d_model"]:
        """x + PE(0..L-1), or x + PE(positions) for packed rows and single steps.

        Positions are smaller than the length asked of `rows` before, or than L.
        """
        if positions is None:
            return x + self.rows(x.shape[1])
        return x + self.table[positions]
