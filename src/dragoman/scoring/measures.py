"""Measures as sums over segments: counts per segment, and the score of their total. What resampling needs.

Paper: none (infrastructure)

The rows for BLEU and chrF come from sacreBLEU itself, by the two methods its own significance tests use; they
are not of its public interface, so a test holds that the total of the rows gives `corpus_score`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF

from dragoman.errors import ConfigError
from dragoman.scoring.bleu import bleu, bleu_metric, choose_tokenizer
from dragoman.scoring.chrf import chrf
from dragoman.scoring.multi_bleu import bleu_of_statistics
from dragoman.scoring.paper_bleu import paper_bleu, paper_signature, paper_statistics
from dragoman.scoring.score import Score, Segments

MeasureName = Literal["bleu", "chrf", "paper"]
MEASURES: tuple[MeasureName, ...] = ("bleu", "chrf", "paper")


@dataclass(frozen=True)
class Measure:
    """A corpus measure that can be computed from sums over segments.

    Args:
        score: scores N checked segments in full.
        rows: turns N checked segments into an array of N rows of counts.
        value: turns the sum of rows into the score, 0 to 100.
        signature: returns how the score was computed; `extra` pairs are put into it.
    """

    score: Callable[[Segments], Score]
    rows: Callable[[Segments], npt.NDArray[np.float64]]
    value: Callable[[Sequence[float]], float]
    signature: Callable[[Segments, dict[str, int]], str]


def measure(
    name: MeasureName,
    *,
    target_language: str | None = None,
    tokenize: str | None = None,
    lowercase: bool = False,
) -> Measure:
    """Return a measure by name.

    Args:
        name: "bleu", "chrf" or "paper".
        target_language: code of the target language; "paper" needs it.
        tokenize: sacreBLEU's tokenizer, for "bleu" only.
        lowercase: score without regard to case, for "bleu" and "chrf".

    Returns:
        The measure.

    Raises:
        ConfigError: there is no such measure, or it has no such setting, or "paper" lacks the language.
    """
    _refuse_unfitting(name, target_language, tokenize, lowercase=lowercase)
    if name == "paper":
        assert target_language is not None
        return _paper(target_language)
    if name == "chrf":
        return _chrf(lowercase=lowercase)
    return _bleu(target_language, tokenize, lowercase=lowercase)


def _chrf(*, lowercase: bool) -> Measure:
    """Wrap chrF."""

    def score(segments: Segments) -> Score:
        return chrf(segments.hypotheses, segments.references, lowercase=lowercase)

    return _sacrebleu(CHRF(lowercase=lowercase), score)


def _bleu(target_language: str | None, tokenize: str | None, *, lowercase: bool) -> Measure:
    """Wrap sacreBLEU's BLEU."""

    def score(segments: Segments) -> Score:
        return bleu(
            segments.hypotheses,
            segments.references,
            target_language=target_language,
            tokenize=tokenize,
            lowercase=lowercase,
        )

    return _sacrebleu(bleu_metric(choose_tokenizer(target_language, tokenize), lowercase=lowercase), score)


def _sacrebleu(metric: Metric, score: Callable[[Segments], Score]) -> Measure:
    """Make a measure of one of sacreBLEU's metrics."""

    def rows(segments: Segments) -> npt.NDArray[np.float64]:
        counts = metric._extract_corpus_statistics(segments.hypotheses, segments.references)
        return np.array(counts, dtype=np.float64)

    def value(total: Sequence[float]) -> float:
        return float(metric._compute_score_from_stats(list(total)).score)

    def signature(segments: Segments, extra: dict[str, int]) -> str:
        written = metric.get_signature()
        for key, number in extra.items():
            written.update(key, number)
        return str(written)

    return Measure(score, rows, value, signature)


def _paper(target_language: str) -> Measure:
    """Wrap the paper's BLEU."""

    def score(segments: Segments) -> Score:
        return paper_bleu(segments.hypotheses, segments.references, target_language=target_language)

    def rows(segments: Segments) -> npt.NDArray[np.float64]:
        counts = paper_statistics(segments, target_language=target_language, tokenized=False)
        return np.array(counts, dtype=np.float64)

    def value(total: Sequence[float]) -> float:
        return bleu_of_statistics(total).value

    def signature(segments: Segments, extra: dict[str, int]) -> str:
        written = paper_signature(len(segments.references), target_language=target_language, tokenized=False)
        return "|".join([*(f"{key}:{number}" for key, number in extra.items()), written])

    return Measure(score, rows, value, signature)


def _refuse_unfitting(
    name: str, target_language: str | None, tokenize: str | None, *, lowercase: bool
) -> None:
    """Refuse an unknown measure and settings that would silently do nothing."""
    if name not in MEASURES:
        raise ConfigError(
            f"there is no measure named {name!r} to compare by",
            where="metric",
            cure=f"choose one of {', '.join(MEASURES)}",
        )
    if tokenize is not None and name != "bleu":
        raise ConfigError(f"{name} has no tokenizer to choose", where="tokenize", cure="leave it out")
    if lowercase and name == "paper":
        raise ConfigError("the paper's BLEU is cased", where="lowercase", cure="leave it out")
    if name == "paper" and target_language is None:
        raise ConfigError(
            "the paper's BLEU needs the target language",
            where="target_language",
            cure="give its code, such as de",
        )
