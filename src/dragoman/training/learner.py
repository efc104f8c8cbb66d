"""What training needs of a model: the paper's has it, and so can others that are trained by the same step.

Paper: none (infrastructure)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int64
from torch import Tensor, nn


@runtime_checkable
class Learner(Protocol):
    """A module that an update and a validation can work with.

    Attributes:
        config: with d_model and pad_id.
        output_weight: the matrix of the output map (V, d_model).
    """

    config: Any

    @property
    def output_weight(self) -> Tensor:
        """The matrix of the output map."""

    def hidden(
        self, source_ids: Int64[Tensor, "B S"], target_ids: Int64[Tensor, "B T"], /
    ) -> Float[Tensor, "B T d_model"]:
        """What the output map is multiplied with."""

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """Of the module that a model is."""

    def train(self, mode: bool = True) -> Any:
        """Of the module that a model is."""

    def eval(self) -> Any:
        """Of the module that a model is."""
