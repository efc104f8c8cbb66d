"""Positions as rotations of queries and keys, so that their products tell how far apart they stand.

Later: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", arXiv:2104.09864
Silent: attention over the encoder's output (nothing is rotated: distances between two texts mean nothing); the number of
the first position (0, which no product depends on).

B batch, h heads, L positions of one sequence, d_k as in the paper.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.model.position import INITIAL_LENGTH


def rotations(length: int, d_k: int, base: float) -> Float[Tensor, "length d_k"]:
    """cos and sin of pos * base^(-2i/d_k), by turns for i = 0 .. d_k/2 - 1; in float64."""
    pos = torch.arange(length, dtype=torch.float64)[:, None]
    two_i = torch.arange(0, d_k, 2, dtype=torch.float64)
    angle = pos * base ** (-two_i / d_k)
    return torch.stack([angle.cos(), angle.sin()], dim=-1).view(length, d_k)


class Rotation(nn.Module):
    """Turns each pair of neighboring coordinates by an angle that grows with the position."""

    table: Tensor

    def __init__(self, d_k: int, base: float) -> None:
        super().__init__()
        self.d_k, self.base = d_k, base
        self.register_buffer("table", rotations(INITIAL_LENGTH, d_k, base).float(), persistent=False)

    def rows(self, stop: int) -> Float[Tensor, "length d_k"]:
        """The table, with rows for the positions below `stop` at least."""
        if stop > self.table.shape[0]:
            # Grown while translating, the table must still be an ordinary tensor when training goes on.
            with torch.inference_mode(False):
                grown = rotations(max(stop, 2 * self.table.shape[0]), self.d_k, self.base)
                self.table = grown.to(self.table)
        return self.table

    def forward(self, x: Float[Tensor, "B h L d_k"], first: int = 0) -> Float[Tensor, "B h L d_k"]:
        """x of the positions first, first + 1, ..."""
        stop = first + x.shape[2]
        cos, sin = self.rows(stop)[first:stop].view(-1, self.d_k // 2, 2).unbind(-1)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(3)
