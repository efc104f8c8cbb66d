"""Paired bootstrap: whether one output is better than another by more than the luck of the test set.

Later: Koehn 2004, Statistical significance tests for machine translation evaluation, EMNLP 2004

The p-value is that of sacreBLEU's paired bootstrap, save that two outputs that never differ get 1 and not
1/(n+1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from dragoman.errors import ConfigError
from dragoman.scoring.measures import Measure, MeasureName, measure
from dragoman.scoring.score import References, Score, check_segments

Draws = npt.NDArray[np.float64]
LEVEL = 95


@dataclass(frozen=True)
class Interval:
    """The middle 95 per cent of a value over the resampled test sets.

    Args:
        mean: its mean over them.
        low: its 2.5th percentile.
        high: its 97.5th percentile.
    """

    mean: float
    low: float
    high: float

    def format(self) -> str:
        """Return the two ends, as `[27.10, 28.95]`."""
        return f"[{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class Comparison:
    """Two outputs for the same test set, compared.

    Args:
        a: score of the first output.
        b: score of the second.
        difference: a's value less b's.
        interval_a: a's score over the resampled test sets.
        interval_b: b's score over the same test sets.
        interval_difference: the difference over the same test sets.
        p_value: how often resampling alone makes a difference this large; small means it is not luck.
        a_better: share of the resampled test sets on which a scores higher, 0 to 1 (Koehn's measure).
        b_better: the share on which b does; the rest are ties.
        samples: how many test sets were resampled.
        seed: what they were drawn with.
        signature: how all this was computed.
    """

    a: Score
    b: Score
    difference: float
    interval_a: Interval
    interval_b: Interval
    interval_difference: Interval
    p_value: float
    a_better: float
    b_better: float
    samples: int
    seed: int
    signature: str

    def format(self) -> str:
        """Return the comparison in four lines for people."""
        return "\n".join(
            [
                f"A  {self.a.name} {self.a.value:.2f}  {LEVEL}% {self.interval_a.format()}",
                f"B  {self.b.name} {self.b.value:.2f}  {LEVEL}% {self.interval_b.format()}",
                (
                    f"A - B  {self.difference:+.2f}  {LEVEL}% {self.interval_difference.format()}  "
                    f"p = {self.p_value:.4f}  A better in {self.a_better:.1%}, B in {self.b_better:.1%}"
                ),
                self.signature,
            ]
        )

    def as_dict(self) -> dict[str, object]:
        """Return all fields as plain values, ready for JSON."""
        return {**asdict(self), "a": self.a.as_dict(), "b": self.b.as_dict()}


def compare(
    hypotheses_a: Sequence[str],
    hypotheses_b: Sequence[str],
    references: References,
    *,
    metric: MeasureName = "bleu",
    samples: int = 1000,
    seed: int = 12345,
    target_language: str | None = None,
    tokenize: str | None = None,
    lowercase: bool = False,
    hypothesis_name_a: str | None = None,
    hypothesis_name_b: str | None = None,
    reference_name: str | None = None,
) -> Comparison:
    """Compare two outputs by paired bootstrap resampling.

    Args:
        hypotheses_a: N units of the first system.
        hypotheses_b: N units of the second.
        references: N units, or several lists of N units, one list for each reference translation.
        metric: "bleu", "chrf" or "paper".
        samples: how many test sets of N segments to draw, with replacement, from the N given.
        seed: seed of the draw; the same seed gives the same answer.
        target_language: code of the target language.
        tokenize: sacreBLEU's tokenizer, for "bleu" only.
        lowercase: score without regard to case.
        hypothesis_name_a: what to call the first output in an error, such as its file.
        hypothesis_name_b: what to call the second.
        reference_name: what to call the references.

    Returns:
        Both scores, their intervals, the difference and its p-value.

    Raises:
        DataError: the counts differ, or there is nothing to score.
        ConfigError: a setting does not fit the measure, or there are no samples.
    """
    _refuse_unusable(samples, seed)
    chosen = measure(metric, target_language=target_language, tokenize=tokenize, lowercase=lowercase)
    checked_a = check_segments(
        hypotheses_a,
        references,
        hypothesis_name=hypothesis_name_a or "hypotheses A",
        reference_name=reference_name,
    )
    checked_b = check_segments(
        hypotheses_b,
        references,
        hypothesis_name=hypothesis_name_b or "hypotheses B",
        reference_name=reference_name,
    )
    draws_a, draws_b = _resample(chosen, chosen.rows(checked_a), chosen.rows(checked_b), samples, seed)
    signature = chosen.signature(checked_a, {"bs": samples, "seed": seed})
    return _as_comparison(chosen.score(checked_a), chosen.score(checked_b), draws_a, draws_b, seed, signature)


def _refuse_unusable(samples: int, seed: int) -> None:
    """Refuse settings no draw can be made with."""
    if samples < 1:
        raise ConfigError(f"cannot resample {samples} times", where="samples", cure="give 1 or more: 1000")
    if seed < 0:
        raise ConfigError(f"{seed} is not a seed", where="seed", cure="give 0 or more")


def _resample(chosen: Measure, rows_a: Draws, rows_b: Draws, samples: int, seed: int) -> tuple[Draws, Draws]:
    """Score both outputs on the same resampled test sets.

    Drawn one test set at a time, which takes the generator's numbers in the order sacreBLEU takes them.
    """
    generator = np.random.default_rng(seed)
    count = len(rows_a)
    scores = np.empty((2, samples))
    for sample in range(samples):
        times = np.bincount(generator.choice(count, size=count, replace=True), minlength=count)
        scores[:, sample] = [chosen.value((times @ rows).tolist()) for rows in (rows_a, rows_b)]
    return scores[0], scores[1]


def _as_comparison(
    a: Score, b: Score, draws_a: Draws, draws_b: Draws, seed: int, signature: str
) -> Comparison:
    """Sum up the resampled scores."""
    return Comparison(
        a=a,
        b=b,
        difference=a.value - b.value,
        interval_a=_interval(draws_a),
        interval_b=_interval(draws_b),
        interval_difference=_interval(draws_a - draws_b),
        p_value=_p_value(draws_a, draws_b, a.value - b.value),
        a_better=float(np.mean(draws_a > draws_b)),
        b_better=float(np.mean(draws_b > draws_a)),
        samples=len(draws_a),
        seed=seed,
        signature=signature,
    )


def _interval(values: Draws) -> Interval:
    """Return the mean and the middle 95 per cent; the ends are values that occurred, as in sacreBLEU."""
    ordered = np.sort(values)
    cut = len(ordered) // 40
    return Interval(float(values.mean()), float(ordered[cut]), float(ordered[-1 - cut]))


def _p_value(draws_a: Draws, draws_b: Draws, difference: float) -> float:
    """Return the share of resampled differences, centered on no difference, that reach the one observed."""
    differences = np.abs(draws_a - draws_b)
    centered = differences - differences.mean()
    return float((np.sum(centered >= abs(difference)) + 1) / (len(differences) + 1))
