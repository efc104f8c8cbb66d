"""BLEU by sacreBLEU, with the tokenizer its target language needs.

Paper: 6.1
Silent: the tokenizer and casing of Table 2. This is today's measure, comparable between papers; the paper's
own is in paper_bleu.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU, BLEUScore

from dragoman.errors import ConfigError, MissingDependency
from dragoman.scoring.languages import primary_language
from dragoman.scoring.score import References, Score, Segments, check_segments

DEFAULT_TOKENIZER = "13a"
_BY_LANGUAGE = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
_EXTRAS = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]"}
# sacreBLEU's others (spm, flores) fetch a model from the network when first used.
TOKENIZERS = ("13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none")


@dataclass(frozen=True)
class TokenizerChoice:
    """A tokenizer and why it was taken.

    Args:
        name: sacreBLEU's name of it.
        reason: one phrase for people.
    """

    name: str
    reason: str


def choose_tokenizer(target_language: str | None, tokenize: str | None) -> TokenizerChoice:
    """Choose sacreBLEU's tokenizer.

    Args:
        target_language: code of the target language ("zh", "ja-JP", "deu"), or None where unknown.
        tokenize: a tokenizer asked for by name; it wins over the language.

    Returns:
        The choice with its reason.

    Raises:
        ConfigError: there is no tokenizer of that name.
    """
    if tokenize is not None:
        _refuse_unknown(tokenize)
        return TokenizerChoice(tokenize, "asked for by name")
    if target_language is None:
        return TokenizerChoice(DEFAULT_TOKENIZER, "no target language given")
    language = primary_language(target_language)
    name = _BY_LANGUAGE.get(language, DEFAULT_TOKENIZER)
    return TokenizerChoice(name, f"target language {target_language}")


def bleu(
    hypotheses: Sequence[str],
    references: References,
    *,
    target_language: str | None = None,
    tokenize: str | None = None,
    lowercase: bool = False,
    hypothesis_name: str | None = None,
    reference_name: str | None = None,
) -> Score:
    """Score translations with sacreBLEU's BLEU.

    Args:
        hypotheses: N units of plain, detokenized text.
        references: N units, or several lists of N units, one list for each reference translation.
        target_language: code of the target language; it chooses the tokenizer: zh, ja and ko have their own.
        tokenize: one of `TOKENIZERS`, in place of the language's.
        lowercase: score without regard to case.
        hypothesis_name: what to call the hypotheses in an error, such as their file.
        reference_name: what to call the references in an error.

    Returns:
        BLEU, 0 to 100. Without a single 4-gram on the hypotheses' side it is 0 by definition.

    Raises:
        DataError: the counts differ, or there is nothing to score.
        ConfigError: there is no tokenizer of that name.
        MissingDependency: the tokenizer needs an extra that is not installed.
    """
    segments = check_segments(
        hypotheses, references, hypothesis_name=hypothesis_name, reference_name=reference_name
    )
    choice = choose_tokenizer(target_language, tokenize)
    metric = bleu_metric(choice, lowercase=lowercase)
    result = metric.corpus_score(segments.hypotheses, segments.references)
    return _as_score(result, str(metric.get_signature()), choice, segments)


def bleu_metric(choice: TokenizerChoice, *, lowercase: bool) -> BLEU:
    """Make sacreBLEU's own object.

    Args:
        choice: the tokenizer.
        lowercase: score without regard to case.

    Returns:
        The metric, with sacreBLEU's defaults otherwise.

    Raises:
        MissingDependency: the tokenizer needs an extra that is not installed.
    """
    try:
        # `force` only silences a warning printed to stderr; our notices say it instead.
        return BLEU(tokenize=choice.name, lowercase=lowercase, force=True)
    except RuntimeError as error:
        extra = _EXTRAS.get(choice.name)
        if extra is None:
            raise
        raise MissingDependency(
            f"the BLEU tokenizer {choice.name} ({choice.reason}) needs a library that is not installed",
            where="tokenize",
            cure=f'pip install "{extra}", or name another tokenizer: {", ".join(TOKENIZERS)}',
        ) from error


def _as_score(result: BLEUScore, signature: str, choice: TokenizerChoice, segments: Segments) -> Score:
    """Put sacreBLEU's result into our form."""
    return Score(
        name="BLEU",
        value=float(result.score),
        signature=signature,
        details={
            "precisions": [float(precision) for precision in result.precisions],
            "brevity_penalty": float(result.bp),
            "hypothesis_length": int(result.sys_len),
            "reference_length": int(result.ref_len),
            "counts": [int(count) for count in result.counts],
            "totals": [int(total) for total in result.totals],
            "tokenizer": choice.name,
            "tokenizer_reason": choice.reason,
        },
        segments=len(segments),
        blank_hypotheses=segments.blank_hypotheses,
        blank_references=segments.blank_references,
        notices=_notices(result, choice, segments),
    )


def _notices(result: BLEUScore, choice: TokenizerChoice, segments: Segments) -> tuple[str, ...]:
    """Say which tokenizer it was, and what looks wrong."""
    notices = [f"BLEU tokenizer: {choice.name} ({choice.reason})"]
    spaced = sum(unit.endswith(" .") for unit in segments.hypotheses)
    if choice.name != "none" and spaced >= 100:
        notices.append(f"{spaced} hypotheses end in a separate full stop: BLEU expects detokenized text")
    if not result.totals[-1]:
        notices.append("no hypothesis is four tokens long: BLEU is 0 by definition")
    return tuple(notices)


def _refuse_unknown(tokenize: str) -> None:
    """Refuse a tokenizer that is not offered."""
    if tokenize not in TOKENIZERS:
        raise ConfigError(
            f"there is no BLEU tokenizer named {tokenize!r}",
            where="tokenize",
            cure=f"choose one of {', '.join(TOKENIZERS)}",
        )
