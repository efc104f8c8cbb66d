"""The length penalty n^alpha.

Later: Ott et al. 2019 (fairseq; Marian, Hugging Face and CTranslate2 have it too), arXiv:1904.01038
"""

from __future__ import annotations


def power_penalty(length: int, alpha: float) -> float:
    """lp(n) = n^alpha, by which log P is divided; n = 0, which no hypothesis has, counts as 1."""
    return float(max(length, 1) ** alpha)
