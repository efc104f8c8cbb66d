"""Heads that share keys and values: those of a group have one of each, and queries of their own.

Later: Ainslie et al. 2023, arXiv:2305.13245; with one group for all heads Shazeer 2019, arXiv:1911.02150
Silent: which heads share (neighbors: the first h / groups, and so on).

What the decoder remembers of its prefix and of the source, and reads at every step, is smaller by h / groups. For
attention itself the heads of a group are so many more queries.

B batch, h heads, g groups, r = h / g heads of one, Q query positions, K key positions, d as in the paper.
"""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor


def as_more_queries(Q: Float[Tensor, "B h Q d"], groups: int) -> Float[Tensor, "B g rQ d"]:
    """The queries of a group's heads, head after head."""
    B, h, L, d = Q.shape
    return Q if groups == h else Q.reshape(B, groups, h // groups * L, d)


def for_more_queries(mask: Bool[Tensor, "#B 1 #Q K"] | None, times: int) -> Bool[Tensor, "#B 1 #rQ K"] | None:
    """The mask of queries that come so many times over."""
    return mask if mask is None or mask.shape[2] == 1 or times == 1 else mask.repeat(1, 1, times, 1)


def as_heads(heads: Float[Tensor, "B g rQ d"], h: int) -> Float[Tensor, "B h Q d"]:
    """The inverse of `as_more_queries`."""
    B, groups, length, d = heads.shape
    return heads if groups == h else heads.reshape(B, h, groups * length // h, d)
