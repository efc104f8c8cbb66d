"""How well a model of one text knows a text: the scores of whichever of the two it is.

Later: Radford et al. 2018; Salazar et al. 2020, arXiv:1910.14659
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.errors import DataError
from dragoman.language.loading import load
from dragoman.language.masked import Known, MaskedLanguageModel
from dragoman.language.model import LanguageModel, Precision
from dragoman.machine import DTYPES
from dragoman.scoring.perplexity import masked_scores, perplexities
from dragoman.scoring.score import Score
from dragoman.text.subwords import Subwords
from dragoman.translator import check_units

AT_ONCE = 200  # texts between two words on how far it is


@dataclass(frozen=True)
class TextEvaluation:
    """Scores of a model on a text."""

    scores: tuple[Score, ...]
    standing: str


def evaluate_text(
    model: LanguageModel | MaskedLanguageModel | str | Path,
    texts: Sequence[str],
    *,
    device: str = "cpu",
    precision: Precision = "fp32",
    on_batch: Callable[[int], None] | None = None,
) -> TextEvaluation:
    """Perplexities of a language model; of a masked one what it knows of subwords hidden one at a time.

    Args:
        model: a model, or its directory.
        texts: a line each.
        device, precision: where `model` is a directory.
        on_batch: told how many texts are done.

    Raises:
        CheckpointError: there is no whole model there.
        ConfigError: it translates; or an argument is not usable.
        DataError: there is no text.
    """
    check_units(texts, "texts")
    if not texts:
        raise DataError("there is nothing to score: the text has no lines", cure="give a text")
    if not isinstance(model, LanguageModel | MaskedLanguageModel):
        model = load(
            model, device=device, precision=precision, cure="give three arguments: MODEL SOURCE REFERENCE"
        )
    tell = on_batch or _say_nothing
    scores = (
        _of_language_model(model, texts, tell)
        if isinstance(model, LanguageModel)
        else _of_masked(model, texts, tell)
    )
    made_with = f"|departures:{'; '.join(model.departures)}" if model.departures else ""
    format_name = next((name for name, dtype in DTYPES.items() if dtype == model.model.dtype), "fp32")
    if format_name != "fp32":
        made_with += f"|products:{format_name}"
    signed = tuple(replace(score, signature=score.signature + made_with) for score in scores)
    return TextEvaluation(signed, model.standing)


def log_probabilities(model: LanguageModel | MaskedLanguageModel, texts: Sequence[str]) -> list[float]:
    """log P of each text in nats; of a masked model the sum of the log P of its tokens, hidden one at a time."""
    if isinstance(model, LanguageModel):
        return model.log_probabilities(texts)
    return [known.log_probability for known in model.known(texts)]


def _say_nothing(_: int) -> None:
    pass


def _runs(texts: Sequence[str], tell: Callable[[int], None]) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), AT_ONCE):
        yield texts[start : start + AT_ONCE]
        tell(min(start + AT_ONCE, len(texts)))


def _of_language_model(
    model: LanguageModel, texts: Sequence[str], tell: Callable[[int], None]
) -> tuple[Score, ...]:
    found: list[float] = []
    tokens = 0
    for run in _runs(texts, tell):
        rows = [model.subwords.encode(text) for text in run]
        found += model.log_probabilities_of_ids(rows)
        tokens += sum(len(row) + 1 for row in rows)
    return perplexities(texts, found, tokens, vocabulary=_named(model.subwords))


def _of_masked(
    model: MaskedLanguageModel, texts: Sequence[str], tell: Callable[[int], None]
) -> tuple[Score, ...]:
    found: list[Known] = []
    for run in _runs(texts, tell):
        found += model.known(run)
    return masked_scores(
        texts,
        sum(known.log_probability for known in found),
        sum(known.right for known in found),
        sum(known.tokens for known in found),
        vocabulary=_named(model.subwords),
    )


def _named(subwords: Subwords) -> str:
    """Perplexities a subword can be compared for one vocabulary alone: how large it is, and which."""
    return f"{subwords.vocab_size} of SHA-256 {subwords.digest[:8]}"
