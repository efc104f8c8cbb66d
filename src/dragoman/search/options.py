"""The options of beam search, checked when they are made.

Paper: 6.1
Silent: a shortest output and more than one output a sentence; both are off (1) unless asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.errors import ConfigError
from dragoman.search.length import Limit, Penalty, length_penalty

# Of a sentence: a row of logits is held for each.
LARGEST_BEAM = 1_000
MOST_DRAWS = 10_000
LARGEST_ALPHA = 10.0  # beyond it lp(n) leaves the range of floats on long outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How to search; the defaults are the paper's.

    Args:
        beam_size: live prefixes a sentence, at most 1,000; 1 is greedy.
        alpha: exponent of the length penalty, -10 to 10; 0 scores by log P alone.
        n_best: hypotheses to return a sentence, at most beam_size.
        min_length: the fewest tokens of an output, EOS included; 1 allows EOS alone.
        max_extra: an output has at most S + max_extra tokens, EOS included; S counts the source's EOS.
        penalty: lp of n and alpha; see `length.Penalty`.
        limit: most tokens of an output, of S, whatever max_extra is; None: by max_extra.

    Raises:
        ConfigError: a value is of another type or out of range.
    """

    beam_size: int = 4
    alpha: float = 0.6
    n_best: int = 1
    min_length: int = 1
    max_extra: int = 50
    penalty: Penalty = length_penalty
    limit: Limit | None = None

    def __post_init__(self) -> None:
        check_integer("beam_size", self.beam_size, least=1, most=LARGEST_BEAM)
        check_integer("n_best", self.n_best, least=1)
        check_integer("min_length", self.min_length, least=1)
        check_integer("max_extra", self.max_extra, least=0)
        check_alpha(self.alpha)
        if self.n_best > self.beam_size:
            raise ConfigError(
                f"n_best {self.n_best} is above beam_size {self.beam_size}",
                where="n_best",
                cure=f"take a beam of at least {self.n_best}, or at most {self.beam_size} hypotheses of a sentence",
            )

    def lp(self, length: int) -> float:
        """What log P of a hypothesis of so many tokens is divided by."""
        return self.penalty(length, self.alpha)


def check_integer(name: str, value: object, *, least: int, most: int | None = None) -> None:
    """Raise ConfigError unless `value` is an integer (no boolean) of at least `least`, at most `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} is {value!r}", where=name, cure=f"give a whole number of at least {least}")
    if most is not None and value > most:
        raise ConfigError(f"{name} is {value!r}", where=name, cure=f"give at most {most:,}")


def check_number(name: str, value: object, *, least: float, most: float) -> None:
    """Raise ConfigError unless `value` is a finite number (no boolean) from `least` to `most`."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise ConfigError(
            f"{name} is {value!r}", where=name, cure=f"give a number from {least:g} to {most:g}"
        )


def check_alpha(alpha: object) -> None:
    """Raise ConfigError unless `alpha` is a number from -10 to 10."""
    check_number("alpha", alpha, least=-LARGEST_ALPHA, most=LARGEST_ALPHA)


def check_ids(*, bos_id: int, eos_id: int, forbidden_ids: Sequence[int]) -> None:
    """Raise ConfigError for ids that no vocabulary has, and for a ban on EOS, since nothing could finish."""
    check_integer("bos_id", bos_id, least=0)
    check_integer("eos_id", eos_id, least=0)
    for forbidden in forbidden_ids:
        check_integer("forbidden_ids", forbidden, least=0)
    if eos_id in forbidden_ids:
        raise ConfigError(
            f"EOS (id {eos_id}) is forbidden, so that no output could end",
            where="forbidden_ids",
            cure="take it out; use min_length to keep outputs from ending early",
        )
