"""A moving average of the weights, which follows them update by update.

Later: Junczys-Dowmunt et al. 2018 (Marian, exponential-smoothing), arXiv:1804.00344
Silent: number format (float32 masters, float64 where they are); what the average begins with (the initial weights).

Off unless a recipe asks for it. Where it is on, it is what is validated and what a checkpoint holds as its weights;
training goes on with the weights themselves, which a checkpoint keeps beside its moments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from dragoman.recipe import Recipe
from dragoman.training.optimizer import FlatAdam

OF_TRAINING = "weight."  # before the names of the weights that training goes on with, in a checkpoint


class MovingAverage:
    """The average of an optimizer's weights.

    Args:
        optimizer: whose weights are followed; the average begins with them.
        taken_up: number of an update -> share of the weights after it in the average.
    """

    def __init__(self, optimizer: FlatAdam, taken_up: Callable[[int], float]) -> None:
        self._optimizer, self._taken_up = optimizer, taken_up
        self._means = {name: weight.clone() for name, weight in optimizer.weights().items()}

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """After update `step`: mean + share * (weight - mean)."""
        share = self._taken_up(step)
        for name, weight in self._optimizer.weights().items():
            self._means[name].lerp_(weight, share)

    def weights(self) -> dict[str, Tensor]:
        """The average by name."""
        return self._means

    def of_training(self) -> dict[str, Tensor]:
        """The weights themselves, as a checkpoint names them."""
        return {f"{OF_TRAINING}{name}": weight for name, weight in self._optimizer.weights().items()}

    def load(self, means: Mapping[str, Tensor]) -> None:
        """Sets the average; names and shapes are the caller's to check."""
        for name, mean in self._means.items():
            mean.copy_(means[name])

    @contextmanager
    def in_the_model(self) -> Iterator[None]:
        """Meanwhile the model has the average; afterwards its weights again, to the last bit."""
        own = {name: weight.clone() for name, weight in self._optimizer.weights().items()}
        self._optimizer.set_weights(self._means)
        try:
            yield
        finally:
            self._optimizer.set_weights(own)


def average_for(optimizer: FlatAdam, recipe: Recipe) -> MovingAverage | None:
    """The average that a recipe asks for, if it does."""
    taken_up = recipe.training_rules.taken_up
    return None if taken_up is None else MovingAverage(optimizer, taken_up)
