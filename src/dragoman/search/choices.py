"""A step function of which each sentence may use some tokens only.

Later: Jean et al. 2015, arXiv:1412.2007

Shapes: B sentences of the batch, K prefixes a sentence, V entries of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.search.step import StepFunction


class Among:
    """The step function with P among each sentence's choices alone: the logits of all other tokens are -inf.

    Args:
        step: of the model.
        choices: of each sentence, at least one.
        vocab_size: V.
    """

    def __init__(self, step: StepFunction, choices: Sequence[Int64[Tensor, "_"]], vocab_size: int) -> None:
        self._step = step
        self._is_choice = torch.zeros(len(choices), vocab_size, dtype=torch.bool)
        for row, ids in zip(self._is_choice, choices, strict=True):
            row[ids] = True

    def __call__(self, tokens_BK: Int64[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Logits of the next token."""
        logits = self._step(tokens_BK)
        self._is_choice = self._is_choice.to(logits.device)
        return logits.masked_fill(~self._is_choice[:, None], -torch.inf)

    def reorder(self, sentences_B: Int64[Tensor, " B"], parents_BK: Int64[Tensor, "B K"]) -> None:
        """As the step function."""
        self._step.reorder(sentences_B, parents_BK)
        self._is_choice = self._is_choice[sentences_B.to(self._is_choice.device)]
