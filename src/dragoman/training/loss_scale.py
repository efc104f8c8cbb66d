"""The factor of the loss in fp16, whose smallest numbers gradients would fall below.

Paper: none (Micikevicius et al. 2018, Mixed Precision Training, 3.2; doubling and halving as in the practice since)

The gradient of a loss that is so many times as large is so many times as large, and is divided by that in float32. If a
gradient has grown beyond fp16's largest number, 65504, the update is left out and the factor halved; after some
updates without that it is doubled. bf16 has the range of float32 and needs none of this.
"""

from __future__ import annotations

from dataclasses import dataclass

FP16 = "fp16"
GROWS_AFTER = 1_000  # updates in a row
LARGEST, SMALLEST = 2.0**15, 2.0**-14


@dataclass(frozen=True)
class LossScale:
    """Of the next update.

    Attributes:
        factor: what the summed loss is multiplied by, a power of two.
        updates: done since it was last changed.
    """

    factor: float = 2.0**7
    updates: int = 0

    @property
    def can_shrink(self) -> bool:
        """False where a gradient that is not finite is not the factor's fault."""
        return self.factor > SMALLEST

    @classmethod
    def of(cls, precision: str) -> LossScale | None:
        """The first one, where the number format needs one."""
        return cls() if precision == FP16 else None

    def after(self, *, overflowed: bool) -> LossScale:
        """The next one, after an update whose gradient was beyond the largest number, or was not."""
        if overflowed:
            return LossScale(max(self.factor / 2.0, SMALLEST))
        if self.updates + 1 >= GROWS_AFTER:
            return LossScale(min(self.factor * 2.0, LARGEST))
        return LossScale(self.factor, self.updates + 1)
