"""Several models as one step function: their probabilities averaged.

Paper: none (infrastructure)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.errors import ConfigError, VocabularyMismatch
from dragoman.search.step import StepFunction


class Ensemble:
    """A step function whose distribution is the mean of its members' distributions.

    Args:
        members: models given the same sources, over the same vocabulary, on one device.

    Raises:
        ConfigError: no members.
    """

    def __init__(self, members: Sequence[StepFunction]) -> None:
        if not members:
            raise ConfigError("an ensemble of no models", where="members", cure="give at least one model")
        self._members = tuple(members)

    def __call__(self, tokens_BK: Int64[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """log of the mean probability of each next token.

        Raises:
            VocabularyMismatch: members that differ in the size of their vocabularies.
        """
        logits = [member(tokens_BK) for member in self._members]
        sizes = [each.shape[-1] for each in logits]
        if len(set(sizes)) > 1:
            raise VocabularyMismatch(
                f"the models of the ensemble have vocabularies of {sizes} entries",
                where="members",
                cure="combine models trained with the same subwords",
            )
        if len(logits) == 1:
            return logits[0]
        # A constant too much in every logit changes no distribution, so the mean may stay a sum.
        return torch.stack([each.float().log_softmax(-1) for each in logits]).logsumexp(0)

    def reorder(self, sentences_B: Int64[Tensor, " B"], parents_BK: Int64[Tensor, "B K"]) -> None:
        """Reorder every member."""
        for member in self._members:
            member.reorder(sentences_B, parents_BK)
