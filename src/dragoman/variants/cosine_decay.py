"""A rate that falls along half a wave of the cosine after its warm-up.

Later: Loshchilov & Hutter 2017, "SGDR", arXiv:1608.03983 (one period of it)
"""

from __future__ import annotations

import math


def cosine(done: float, to: float) -> float:
    """Share of the highest rate when so much of the updates after the warm-up is done, from 1 down to `to`."""
    return to + (1.0 - to) * 0.5 * (1.0 + math.cos(math.pi * done))
