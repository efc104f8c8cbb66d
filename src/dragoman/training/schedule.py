"""The learning rate.

Paper: 5.3 (Eq. 3)
Silent: whether the first update is step 0 or 1 (1: at 0 the formula has no value).
"""

from __future__ import annotations


def learning_rate(step: int, *, d_model: int, warmup_steps: int, factor: float = 1.0) -> float:
    """factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), for step >= 1."""
    assert step >= 1, "steps are counted from 1"
    return float(factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))
