"""Exact match: the share of hypotheses that are their reference to the letter.

Paper: none (infrastructure)
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.scoring.score import References, Score, check_segments


def exact_match(
    hypotheses: Sequence[str],
    references: References,
    *,
    hypothesis_name: str | None = None,
    reference_name: str | None = None,
) -> Score:
    """Count the hypotheses that are identical to their reference.

    Args:
        hypotheses: N units.
        references: N units, or several lists of N units; being equal to any one of them counts.
        hypothesis_name: what to call the hypotheses in an error, such as their file.
        reference_name: what to call the references in an error.

    Returns:
        The share of identical units in per cent. Nothing is normalized: case, spaces and a CR inside count;
        two blank lines are identical if they hold the same characters.

    Raises:
        DataError: the counts differ, or there is nothing to score.
    """
    segments = check_segments(
        hypotheses, references, hypothesis_name=hypothesis_name, reference_name=reference_name
    )
    rows = zip(segments.hypotheses, *segments.references, strict=True)
    matches = sum(hypothesis in wanted for hypothesis, *wanted in rows)
    return Score(
        name="exact match",
        value=100.0 * matches / len(segments),
        signature=f"nrefs:{len(segments.references)}|case:mixed|space:yes|measure:dragoman exact match",
        details={"matches": matches},
        segments=len(segments),
        blank_hypotheses=segments.blank_hypotheses,
        blank_references=segments.blank_references,
    )
