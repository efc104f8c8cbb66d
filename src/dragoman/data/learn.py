"""Subwords for a corpus: learned from its training pairs alone, or loaded.

Paper: 5.1
Silent: how many pairs the subwords are learned from; ours: all, up to 600,000 chosen by seed. How many subwords
a corpus smaller than the paper's should have; ours, where none is asked for: 37,000 (the paper's) from a million pairs
on, 16,000 from 200,000, 8,000 from 10,000, 4,000 below.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dragoman.data.census import NUMBERS_NAMED, Census, Role
from dragoman.data.entities import Entities, as_chosen
from dragoman.data.manifest import SIDES, Side
from dragoman.errors import ConfigError
from dragoman.text.subwords import SizePolicy, Subwords, TrainingReport

SubwordPath = str | os.PathLike[str]
GivenSubwords = SubwordPath | tuple[SubwordPath, SubwordPath]

_SIZES = ((1_000_000, 37_000), (200_000, 16_000), (10_000, 8_000), (0, 4_000))

# Learning holds its text in memory; these give the same merges as more do but for rare ones.
LEARNED_PAIRS = 600_000


@dataclass(frozen=True)
class Vocabularies:
    """The subword models of both sides, one object when shared, and what to say about them."""

    source: Subwords
    target: Subwords
    notes: tuple[str, ...]


@dataclass(frozen=True)
class LearningChoices:
    """How subwords are learned when none are given."""

    vocab_size: int | None
    joint: bool
    byte_fallback: bool
    size_policy: SizePolicy
    entities: Entities
    seed: int


@dataclass(frozen=True, eq=False)
class _SideUnits:
    """One side of the training pairs; each iteration reads the text anew."""

    census: Census
    side: Side
    entities: Entities

    def __iter__(self) -> Iterator[str]:
        for pair in self.census.pairs(Role.TRAIN):
            text = pair.source if self.side == "source" else pair.target
            yield as_chosen(text, self.entities)


def load_subwords(given: GivenSubwords) -> Vocabularies:
    """Load a shared model, or one a side.

    Raises:
        DataError: a file is no subword model.
    """
    if isinstance(given, tuple):
        source, target = (Subwords.load(path) for path in given)
        return Vocabularies(source, source if source.digest == target.digest else target, ())
    shared = Subwords.load(given)
    return Vocabularies(shared, shared, ())


def learn_subwords(census: Census, choices: LearningChoices) -> Vocabularies:
    """Learn a shared model, or one a side, from the TRAIN pairs.

    Raises:
        ConfigError: the size is out of range, or under "exact" cannot be reached.
        DataError: nothing is left to learn from.
    """
    units: dict[Side, _SideUnits] = {side: _SideUnits(census, side, choices.entities) for side in SIDES}
    if census.text.one_text:
        alone = _train({"source": units["source"]}, census, choices)
        return Vocabularies(alone, alone, _notes("the subwords", alone, census))
    if choices.joint:
        shared = _train(units, census, choices)
        return Vocabularies(shared, shared, _notes("the shared subwords", shared, census))
    source = _train({"source": units["source"]}, census, choices)
    target = _train({"target": units["target"]}, census, choices)
    notes = _notes("the source subwords", source, census) + _notes("the target subwords", target, census)
    return Vocabularies(source, target, notes)


def _train(units: dict[Side, _SideUnits], census: Census, choices: LearningChoices) -> Subwords:
    return Subwords.train(
        {str(side): stream for side, stream in units.items()},
        vocab_size=choices.vocab_size or default_vocab_size(census.count(Role.TRAIN)),
        size_policy=choices.size_policy,
        seed=choices.seed,
        share=_share(census),
        byte_fallback=choices.byte_fallback,
    )


def default_vocab_size(pairs: int) -> int:
    """Subwords for a corpus of so many pairs where no number was asked for."""
    return next(size for least, size in _SIZES if pairs >= least)


def _share(census: Census) -> float:
    return min(1.0, LEARNED_PAIRS / max(1, census.count(Role.TRAIN)))


def _notes(name: str, subwords: Subwords, census: Census) -> tuple[str, ...]:
    """What a user should be told of a training."""
    report = subwords.training_report
    if report is None:
        return ()
    notes = []
    if report.vocab_size != report.vocab_size_asked:
        less = report.vocab_size < report.vocab_size_asked
        reason = "the corpus has no more to merge" if less else "its characters take as many"
        notes.append(f"{name} have {report.vocab_size:,} entries, not {report.vocab_size_asked:,}: {reason}")
    if _share(census) < 1:
        notes.append(f"{name} were learned from {report.used:,} units chosen by seed, not from all")
    return (*notes, *_left_out_notes(name, report, census))


def _left_out_notes(name: str, report: TrainingReport, census: Census) -> Iterator[str]:
    """Units the learning left out, by the lines of the corpus: the stream counts training pairs only."""
    for entry in report.left_out.entries:
        lines = census.numbers(Role.TRAIN)  # large: only where there is something to name
        shown = ", ".join(str(lines[number - 1]) for number in entry.numbers[:NUMBERS_NAMED])
        more = ", ..." if entry.count > len(entry.numbers) else ""
        left = f"{entry.count:,} {entry.where} lines, {entry.reason}"
        yield f"{name} were learned without {left}: {shown}{more}"


def as_given(subwords: SubwordPath | Sequence[SubwordPath]) -> GivenSubwords:
    """One path, or two.

    Raises:
        ConfigError: another number of paths.
    """
    if isinstance(subwords, str | os.PathLike):
        return subwords
    paths = tuple(subwords)
    if len(paths) != 2:
        raise ConfigError(
            f"{len(paths)} subword models are given", where="subwords", cure="give one, or one a side"
        )
    return paths[0], paths[1]
