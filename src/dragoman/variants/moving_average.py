"""How much of each update a moving average of the weights takes up.

Later: Junczys-Dowmunt et al. 2018 (Marian, exponential-smoothing), arXiv:1804.00344
Silent: the first updates, when the weights are still far from where they go: as Marian, more is taken up then.
"""

from __future__ import annotations


def taken_up(step: int, share: float) -> float:
    """Of the weights after update `step` (from 1): the share, or 9 / (step + 9) while that is more."""
    return max(share, 9.0 / (step + 9.0))
