"""Biases on the four projections of attention.

Later: Ott et al. 2019 (fairseq, and so torch.nn.MultiheadAttention and Marian), arXiv:1904.01038
Silent: initial values (0).
"""

from __future__ import annotations

import torch
from torch import nn


class ProjectionBiases(nn.Module):
    """What is added to queries, keys and values, and to what W^O gives.

    Args:
        width: numbers that queries, keys and values have together.
        d_model: of the model.
    """

    def __init__(self, width: int, d_model: int) -> None:
        super().__init__()
        self.b_QKV = nn.Parameter(torch.empty(width))
        self.b_O = nn.Parameter(torch.empty(d_model))

    def initialize(self, generator: torch.Generator) -> None:
        """Zero."""
        self.b_QKV.zero_()
        self.b_O.zero_()
