"""Sinusoidal positions with all sines before all cosines.

Later: Vaswani et al. 2018 (tensor2tensor, get_timing_signal_1d), arXiv:1803.07416
Silent: the number of the first position (0, as tensor2tensor; fairseq begins behind its padding's number).

Two sets of wavelengths are in use: the paper's, 10000^(2i/d_model), by Hugging Face's Marian; and one that reaches 10000
itself at the last i, 10000^(i / (d_model/2 - 1)), by tensor2tensor, fairseq and Marian. The paper's with sines and
cosines in blocks is the paper's model with its coordinates in another order, until weights are exchanged.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.model.position import SinusoidalPosition

Wavelengths = Literal["paper", "tensor2tensor"]


def block_sinusoids(length: int, d_model: int, wavelengths: Wavelengths) -> Float[Tensor, "length d_model"]:
    """sin(pos / w_i) for all i, then cos(pos / w_i); in float64."""
    pos = torch.arange(length, dtype=torch.float64)[:, None]
    i = torch.arange(d_model // 2, dtype=torch.float64)
    share = 2.0 * i / d_model if wavelengths == "paper" else i / (d_model // 2 - 1)
    angle = pos / 10000.0**share
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class BlockSinusoidalPosition(SinusoidalPosition):
    """Adds them to the embeddings; there is no longest position."""

    def __init__(self, d_model: int, wavelengths: Wavelengths) -> None:
        self.wavelengths = wavelengths
        super().__init__(d_model)

    def computed(self, length: int) -> Float[Tensor, "length d_model"]:
        """The table of so many rows."""
        return block_sinusoids(length, self.d_model, self.wavelengths)
