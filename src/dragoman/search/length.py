"""The length penalty, the length limit, and the best score a live prefix can still reach.

Paper: 6.1 (alpha, maximum length; the formula is Eq. 14 of Wu et al. 2016, arXiv:1609.08144)
Silent: the formula, and whether S and n count the end marks; lp(n) = ((5 + n) / 6)^alpha, both counted, as in
    tensor2tensor. alpha < 0 is allowed, and favors short outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.errors import ConfigError

# lp of n and alpha. A search may be given another than the paper's; it must rise with n where alpha is above 0 and fall
# where it is below, for `score_bounds` to hold.
Penalty = Callable[[int, float], float]
# N of S.
Limit = Callable[[int], int]


def length_penalty(length: int, alpha: float) -> float:
    """lp(n) = ((5 + n) / 6)^alpha, by which log P is divided.

    Args:
        length: n, tokens with EOS.
        alpha: 0 gives 1 for every length; above 0, longer outputs lose less.
    """
    return float(((5 + length) / 6) ** alpha)


def penalty_table(
    longest: int,
    *,
    alpha: float,
    device: torch.device,
    dtype: torch.dtype = torch.float64,
    penalty: Penalty = length_penalty,
) -> Float[Tensor, " lengths"]:
    """lp(0) ... lp(longest), computed on the host so that every device divides by the same numbers."""
    return torch.tensor([penalty(n, alpha) for n in range(longest + 1)], dtype=dtype, device=device)


def score_bounds(
    log_probabilities: Float[Tensor, " B"],
    *,
    length: int,
    limits: Int64[Tensor, " B"],
    penalties: Float[Tensor, " lengths"],
    alpha: float,
) -> Float[Tensor, " B"]:
    """The score no continuation of a live prefix can exceed: what log P would score with no further loss.

    Args:
        log_probabilities: log P of the prefix, at most 0.
        length: m, the prefix's tokens so far.
        limits: N of each sentence.
        penalties: `penalty_table` up to the largest N + 1.
        alpha: as the penalty's. Above 0 the longest output divides by most, so lp(N); below 0 the shortest,
            so lp(m + 1).
    """
    return log_probabilities / (penalties[limits] if alpha >= 0 else penalties[length + 1])


def length_limits(
    source_lengths: Sequence[int], *, max_extra: int, min_length: int, limit: Limit | None = None
) -> list[int]:
    """N of each sentence: n <= S + max_extra, EOS included on both sides.

    Args:
        source_lengths: S of each sentence, subwords with EOS, at least 1.
        max_extra: 50 in the paper.
        min_length: the shortest output allowed; must fit every limit.
        limit: N of S, where it is another than the paper's.

    Raises:
        ConfigError: a length under 1, or a limit under `min_length`.
    """
    limits = []
    for row, source_length in enumerate(source_lengths):
        where = f"sentence {row} of the batch"
        if source_length < 1:
            raise ConfigError(
                f"source length {source_length} is not at least 1",
                where=where,
                cure="count the source's EOS; give blank sentences their blank output without a search",
            )
        longest = source_length + max_extra if limit is None else limit(source_length)
        if longest < min_length:
            said = f"{source_length} + {max_extra}" if limit is None else f"{longest}"
            raise ConfigError(
                f"min_length {min_length} is above the length limit {said}",
                where=where,
                cure="lower min_length or raise max_extra",
            )
        limits.append(longest)
    return limits
