"""Positions as a table that is learned.

Paper: 3.5, Table 3 (row E)
Silent: how many rows the table has (512 unless told); what is beyond them (it has the last row: a translation that runs
on is not lost); whether the stacks share the table (they do); its initial values (normal with deviation d_model^-0.5, as
the embeddings); a factor (none: the embeddings alone are multiplied by sqrt(d_model)).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn


class LearnedPosition(nn.Module):
    """Adds a row of the table to each embedding."""

    def __init__(self, d_model: int, length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(length, d_model))

    def initialize(self, generator: torch.Generator) -> None:
        """Normal, with deviation d_model^-0.5."""
        self.weight.normal_(0.0, self.weight.shape[1] ** -0.5, generator=generator)

    def rows(self, length: int) -> None:
        """The table does not grow."""

    def forward(
        self, x: Float[Tensor, "B L d_model"], positions: Int64[Tensor, "B L"] | None = None
    ) -> Float[Tensor, "B L d_model"]:
        """x + rows 0..L-1, or x + the rows of `positions` for packed rows and single steps."""
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        # Summed in float32 at least, as the gradient of the embeddings is.
        wide = self.weight if self.weight.dtype == torch.float64 else self.weight.float()
        return x + F.embedding(positions.clamp(max=len(wide) - 1), wide).to(x.dtype)
