"""A rate that falls linearly after its warm-up.

Later: Devlin et al. 2019, arXiv:1810.04805
"""

from __future__ import annotations


def linear(done: float, to: float) -> float:
    """Share of the highest rate when so much of the updates after the warm-up is done, from 1 down to `to`."""
    return 1.0 - (1.0 - to) * done
