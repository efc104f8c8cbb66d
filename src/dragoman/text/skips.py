"""What was left out of a text and why, by number: nothing is dropped in silence.

Paper: none (infrastructure)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NUMBERS_KEPT = 20


@dataclass(frozen=True)
class Skipped:
    """The units, or pairs, left out of one place for one reason."""

    where: str  # name of a file or of a side; may be empty when there is only one place
    reason: str
    count: int
    numbers: tuple[int, ...]  # the first ones, from 1, rising; `NUMBERS_KEPT` by default

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.numbers))
        more = ", ..." if self.count > len(self.numbers) else ""
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.count} left out, {self.reason}: {shown}{more}"


@dataclass(frozen=True)
class SkipReport:
    """All that was left out, one entry for each place and reason, in the order first met."""

    entries: tuple[Skipped, ...] = ()

    @property
    def total(self) -> int:
        """How many were left out in all."""
        return sum(entry.count for entry in self.entries)

    def lines(self) -> list[str]:
        """One line of plain text for each entry; none when nothing was left out."""
        return [str(entry) for entry in self.entries]

    def to_json(self) -> list[dict[str, str | int | list[int]]]:
        """The entries as values that JSON can hold."""
        return [
            {"where": e.where, "reason": e.reason, "count": e.count, "numbers": list(e.numbers)}
            for e in self.entries
        ]


@dataclass
class SkipLog:
    """Collects while a text is read; `report()` freezes it. Memory does not grow with the text."""

    numbers_kept: int = NUMBERS_KEPT
    _counts: dict[tuple[str, str], int] = field(default_factory=dict)
    _numbers: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def add(self, reason: str, number: int, *, where: str = "") -> None:
        """Note that unit or pair `number` (from 1) was left out for `reason`."""
        key = (where, reason)
        self._counts[key] = self._counts.get(key, 0) + 1
        kept = self._numbers.setdefault(key, [])
        if len(kept) < self.numbers_kept:
            kept.append(number)

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """Counts so far by (where, reason)."""
        return dict(self._counts)

    def report(self) -> SkipReport:
        """What was collected so far."""
        return SkipReport(
            tuple(
                Skipped(where, reason, count, tuple(self._numbers[where, reason]))
                for (where, reason), count in self._counts.items()
            )
        )
