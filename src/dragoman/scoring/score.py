"""A score with all that is needed to read it, and the checks all measures share.

Paper: none (infrastructure)

Blank units are scored as they are: a blank line is a pair like any other, is never dropped, and is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from dragoman.errors import DataError

Detail = str | int | float | bool | None | list[int] | list[float]

# One list of units, or one such list for each reference translation (each as long as the hypotheses).
References = Sequence[str] | Sequence[Sequence[str]]

_CURE_FOR_COUNTS = "give one reference for each hypothesis, in the same order; blank lines count"


@dataclass(frozen=True)
class Score:
    """What a measure says of one set of hypotheses.

    Args:
        name: the measure, as it is written in tables ("BLEU", "chrF2").
        value: the score itself, in the measure's own unit (0 to 100, but for perplexities and bits).
        signature: how it was computed, enough to compute it again.
        details: the parts it is made of, by name.
        segments: how many units were scored.
        blank_hypotheses: how many of the hypotheses hold nothing but white space.
        blank_references: the same of the references, over all reference translations.
        notices: what a reader should know before comparing it with another score.
    """

    name: str
    value: float
    signature: str
    details: dict[str, Detail]
    segments: int
    blank_hypotheses: int
    blank_references: int
    notices: tuple[str, ...] = field(default=())

    def format(self) -> str:
        """Return the score and its signature on one line: `BLEU 28.05  nrefs:1|case:mixed|...`."""
        return f"{self.name} {self.value:.2f}  {self.signature}"

    def counts(self) -> str:
        """Return how much was scored, on one line."""
        return (
            f"segments {self.segments}, blank hypotheses {self.blank_hypotheses}, "
            f"blank references {self.blank_references}"
        )

    def as_dict(self) -> dict[str, object]:
        """Return all fields as plain values, ready for JSON."""
        return {**asdict(self), "notices": list(self.notices)}


@dataclass(frozen=True)
class Segments:
    """Hypotheses and references of equal number, checked.

    Args:
        hypotheses: N units.
        references: R lists of N units each.
    """

    hypotheses: list[str]
    references: list[list[str]]

    def __len__(self) -> int:
        return len(self.hypotheses)

    @property
    def blank_hypotheses(self) -> int:
        """How many hypotheses are blank."""
        return _blanks(self.hypotheses)

    @property
    def blank_references(self) -> int:
        """How many references are blank, over all reference translations."""
        return sum(_blanks(units) for units in self.references)


def check_segments(
    hypotheses: Sequence[str],
    references: References,
    *,
    hypothesis_name: str | None = None,
    reference_name: str | None = None,
) -> Segments:
    """Check that every hypothesis has its references.

    Args:
        hypotheses: N units.
        references: N units, or several lists of N units, one list for each reference translation.
        hypothesis_name: what to call the hypotheses in an error, such as their file.
        reference_name: what to call the references in an error.

    Returns:
        Both sides, in full and in order.

    Raises:
        DataError: the counts differ, or there is nothing to score, or one side is a single string.
    """
    hypothesis_name, reference_name = hypothesis_name or "hypotheses", reference_name or "references"
    _refuse_single_string(hypotheses, hypothesis_name)
    _refuse_single_string(references, reference_name)
    sets = _reference_sets(references)
    for number, units in enumerate(sets, start=1):
        name = reference_name if len(sets) == 1 else f"{reference_name} (translation {number})"
        _compare_counts(len(hypotheses), len(units), hypothesis_name, name)
    if not hypotheses:
        raise DataError(
            f"there is nothing to score: {hypothesis_name} has 0 units and {reference_name} has 0",
            where=f"{hypothesis_name}, {reference_name}",
            cure="give at least one pair",
        )
    return Segments(list(hypotheses), sets)


def _reference_sets(references: References) -> list[list[str]]:
    """Return references as a list of reference translations, each a list of units."""
    if len(references) > 0 and not isinstance(references[0], str):
        return [list(units) for units in references]
    return [[str(unit) for unit in references]]


def _compare_counts(hypotheses: int, references: int, hypothesis_name: str, reference_name: str) -> None:
    """Refuse counts that differ; nothing is cut to the shorter side."""
    if hypotheses != references:
        raise DataError(
            f"{hypothesis_name} has {hypotheses} units and {reference_name} has {references}",
            where=f"{hypothesis_name}, {reference_name}",
            cure=_CURE_FOR_COUNTS,
        )


def _refuse_single_string(units: object, name: str) -> None:
    """Refuse one string where a list of units is wanted: it would be read as a list of characters."""
    if isinstance(units, str):
        raise DataError(
            f"{name} is one string, not a list of units",
            where=name,
            cure="give a list, even for one unit: [text]",
        )


def _blanks(units: Sequence[str]) -> int:
    """Count units of white space only."""
    return sum(not unit.strip() for unit in units)
