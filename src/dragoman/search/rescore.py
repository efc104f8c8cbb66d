"""The score of a target that is given, by the same log P and length penalty as the search's.

Paper: none (infrastructure)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from dragoman.errors import ConfigError, DragomanError
from dragoman.search.candidates import accumulator_type, log_normalizers
from dragoman.search.length import Penalty, length_penalty
from dragoman.search.options import check_alpha


@dataclass(frozen=True, slots=True)
class ForcedScore:
    """What a given target scores.

    Args:
        log_probability: log P, the sum over its tokens, EOS included if it was given.
        score: log P / lp(n).
        length: n, the tokens given.
    """

    log_probability: float
    score: float
    length: int


def token_log_probabilities(
    logits: Float[Tensor, "B T V"], targets: Int64[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """log P of each target token given those before it: logit - log sum exp, as the search takes it.

    Args:
        logits: the model's answer to the target shifted right (BOS first).
        targets: the target itself, with EOS; padding gets a number that means nothing.
    """
    with torch.no_grad():
        normalizers = log_normalizers(logits, logits.argmax(-1))
        chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        return chosen.to(accumulator_type(logits.device)) - normalizers


def forced_scores(
    log_probabilities: Sequence[Float[Tensor, " _"]], *, alpha: float = 0.6, penalty: Penalty = length_penalty
) -> list[ForcedScore]:
    """The score of each target from the log-probabilities of its tokens, summed in float64.

    Args:
        log_probabilities: a tensor a target, EOS included, padding not.
        alpha: of the length penalty.
        penalty: lp of n and alpha.

    Raises:
        ConfigError: a target without a token, or alpha out of range.
        DragomanError: a log-probability that is not a number, or above 0.
    """
    check_alpha(alpha)
    return [
        _forced_score(row, values, lambda n: penalty(n, alpha))
        for row, values in enumerate(log_probabilities)
    ]


def _forced_score(row: int, values: Float[Tensor, " n"], lp: Callable[[int], float]) -> ForcedScore:
    if values.ndim != 1 or not len(values):
        raise ConfigError(
            f"log-probabilities of shape {tuple(values.shape)} are no target",
            where=f"target {row}",
            cure="give one number a token, EOS included; blank targets get score 0 without a model",
        )
    wide: Float64[Tensor, " n"] = values.detach().cpu().double()
    if not bool((wide <= 1e-5).all()):
        raise DragomanError(
            "a log-probability is not a number, or is above 0",
            where=f"target {row}",
            cure="check the model's weights for NaN and infinity",
        )
    total = float(wide.sum())
    return ForcedScore(total, total / lp(len(values)), len(values))
