"""The learning rate: the paper's, and a cooldown at its end for runs that are short.

Paper: 5.3 (Eq. 3)
Silent: whether the first update is step 0 or 1 (1: at 0 the formula has no value).

The cooldown is not the paper's and off unless a recipe asks for it: the rate falls linearly over the last updates of a
run (Zhai et al. 2022, "Scaling Vision Transformers"; Hägele et al. 2024), which does in a short run what the
many updates at low rates do in a long one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

COOLED_DOWN = 0.05  # of the paper's rate, where the fall ends


@dataclass(frozen=True)
class Cooldown:
    """The rate falls from update `begin` (still whole) to update `begin + steps` (COOLED_DOWN of it), and stays."""

    begin: int
    steps: int

    def factor(self, step: int) -> float:
        """What the rate of this update is multiplied by."""
        done = min(max((step - self.begin) / self.steps, 0.0), 1.0)
        return 1.0 - (1.0 - COOLED_DOWN) * done


@dataclass(frozen=True)
class Decay:
    """Another fall than the paper's after the warm-up, from the highest rate.

    Attributes:
        share: of the highest rate, when so much of what comes after the warm-up is done.
        max_steps: the last update; the fall would be at its end one later, so that each update moves weights.
    """

    share: Callable[[float], float]
    max_steps: int

    def factor(self, step: int, warmup_steps: int) -> float:
        """What the highest rate is multiplied by, after the warm-up."""
        left = self.max_steps + 1 - warmup_steps
        return self.share(min((step - warmup_steps) / left, 1.0))


def learning_rate(
    step: int,
    *,
    d_model: int,
    warmup_steps: int,
    factor: float = 1.0,
    cooldown: Cooldown | None = None,
    decay: Decay | None = None,
) -> float:
    """factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), for step >= 1; less in a cooldown."""
    assert step >= 1, "steps are counted from 1"
    if decay is not None and step > warmup_steps:
        highest = float(factor * d_model**-0.5 * warmup_steps**-0.5)
        return highest * decay.factor(step, warmup_steps)
    rate = float(factor * d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))
    return rate if cooldown is None else rate * cooldown.factor(step)


def share_done(step: int, seconds: float, *, max_steps: int, max_minutes: float | None) -> float:
    """How much of a run is over, by whichever of its limits is the nearer."""
    by_steps = step / max_steps
    return by_steps if max_minutes is None else max(by_steps, seconds / (60.0 * max_minutes))


def cooldown_due(
    share: float, step: int, seconds: float, *, max_steps: int, max_minutes: float | None
) -> Cooldown | None:
    """The cooldown, planned in updates, once the last `share` of a run has begun; before that None.

    Where minutes end the run, the updates left are reckoned from the pace so far.
    """
    if share == 0.0 or step == 0:
        return None
    if share_done(step, seconds, max_steps=max_steps, max_minutes=max_minutes) < 1.0 - share:
        return None
    left = max_steps - step
    if max_minutes is not None and seconds > 0.0:
        left = round(min(left, step * (60.0 * max_minutes - seconds) / seconds))
    return Cooldown(begin=step, steps=max(1, left))
