"""chrF by sacreBLEU: the F-score of character n-grams, which needs no tokenizer.

Later: Popović 2015, chrF: character n-gram F-score for automatic MT evaluation, WMT 2015
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sacrebleu.metrics.chrf import CHRF

from dragoman.scoring.score import References, Score, check_segments


def chrf(
    hypotheses: Sequence[str],
    references: References,
    *,
    word_order: Literal[0, 1, 2] = 0,
    lowercase: bool = False,
    hypothesis_name: str | None = None,
    reference_name: str | None = None,
) -> Score:
    """Score translations with sacreBLEU's chrF.

    Args:
        hypotheses: N units of plain, detokenized text.
        references: N units, or several lists of N units, one list for each reference translation.
        word_order: longest word n-gram counted as well; 2 gives chrF++.
        lowercase: score without regard to case.
        hypothesis_name: what to call the hypotheses in an error, such as their file.
        reference_name: what to call the references in an error.

    Returns:
        chrF2 (recall weighs four times precision), 0 to 100.

    Raises:
        DataError: the counts differ, or there is nothing to score.
    """
    segments = check_segments(
        hypotheses, references, hypothesis_name=hypothesis_name, reference_name=reference_name
    )
    metric = CHRF(word_order=word_order, lowercase=lowercase)
    result = metric.corpus_score(segments.hypotheses, segments.references)
    return Score(
        name=str(result.name),
        value=float(result.score),
        signature=str(metric.get_signature()),
        details={"char_order": metric.char_order, "word_order": word_order, "beta": metric.beta},
        segments=len(segments),
        blank_hypotheses=segments.blank_hypotheses,
        blank_references=segments.blank_references,
    )
