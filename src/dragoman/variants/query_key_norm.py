"""Queries and keys of length one, whose products are multiplied by a learned factor.

Later: Henry et al. 2020, "Query-Key Normalization for Transformers", arXiv:2010.04245
Silent: what is added to a length of 0 (nothing: it counts as 1e-12).

Scores are then cosines times g, and no head can become as sharp as it likes. g begins at log2(L^2 - L), where nearly all
sentences are of at most L tokens.

B batch, h heads, L positions of one sequence, d_k as in the paper.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class QueryKeyNorm(nn.Module):
    """softmax(g Q' K'^T) V, where Q' and K' are the queries and keys divided by their lengths: what comes before Eq. 1.

    Args:
        d_k: width of a head's queries and keys.
        length: L.
    """

    def __init__(self, d_k: int, length: int) -> None:
        super().__init__()
        self.d_k, self.length = d_k, length
        self.g = nn.Parameter(torch.empty(()))

    def initialize(self, generator: torch.Generator) -> None:
        """log2(L^2 - L)."""
        self.g.fill_(math.log2(self.length**2 - self.length))

    def queries(self, Q: Float[Tensor, "B h L d_k"]) -> Float[Tensor, "B h L d_k"]:
        """Of length g sqrt(d_k): Eq. 1 divides by the root again."""
        return F.normalize(Q, dim=-1) * (self.g * math.sqrt(self.d_k))

    def keys(self, K: Float[Tensor, "B h L d_k"]) -> Float[Tensor, "B h L d_k"]:
        """Of length one."""
        return F.normalize(K, dim=-1)
