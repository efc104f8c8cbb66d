"""What `prepare` is asked for, and the refusal of what cannot be done, before any work.

Paper: none (infrastructure)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from dragoman.data.entities import Entities
from dragoman.data.learn import GivenSubwords, LearningChoices
from dragoman.data.manifest import MANIFEST_NAME, read_manifest
from dragoman.errors import ConfigError, DataError
from dragoman.text.corpus import PairBadBytes
from dragoman.text.subwords import SizePolicy

Overwrite = Literal["refuse", "replace"]
Stage = Literal["reading", "learning subwords", "encoding"]

_LARGEST_UNIT_TOKENS = 1_000_000


@dataclass(frozen=True)
class Progress:
    """How far `prepare` is: pairs done of those there are, in one of its stages."""

    stage: Stage
    done: int
    total: int


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class Choices:
    """The arguments of `prepare` beside its texts and its place."""

    subwords: GivenSubwords | None
    learning: LearningChoices
    dev_size: int | None
    bad_bytes: PairBadBytes
    max_unit_tokens: int
    seed: int
    on_progress: OnProgress

    def tick(self, stage: Stage, total: int) -> Callable[[int], None]:
        """A function that tells how many pairs of `total` are done in a stage."""
        return lambda done: self.on_progress(Progress(stage, done, total))


def check_choices(choices: Choices) -> None:
    """Refuse arguments out of range or at odds with each other.

    Raises:
        ConfigError: names the argument.
    """
    _check_words("bad_bytes", choices.bad_bytes, get_args(PairBadBytes))
    _check_words("entities", choices.learning.entities, get_args(Entities))
    _check_words("size_policy", choices.learning.size_policy, get_args(SizePolicy))
    _check_range("max_unit_tokens", choices.max_unit_tokens, 2, _LARGEST_UNIT_TOKENS)
    _check_range("seed", choices.seed, 0)
    if choices.dev_size is not None:
        _check_range("dev_size", choices.dev_size, 1)
    one_given = choices.subwords is not None and not isinstance(choices.subwords, tuple)
    if one_given and not choices.learning.joint:
        raise ConfigError(
            "one subword model is given for both sides, but joint is off",
            where="subwords",
            cure="give one a side, or leave joint on",
        )


def _check_words(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}", where=name, cure=f"use one of {', '.join(allowed)}")


def _check_range(name: str, value: int, least: int, most: int | None = None) -> None:
    if value < least or (most is not None and value > most):
        bounds = f"{least:,} or more" if most is None else f"{least:,} to {most:,}"
        raise ConfigError(f"{name} is {value}", where=name, cure=f"use {bounds}")


def check_place(place: Path, overwrite: Overwrite) -> None:
    """Refuse to take the place of anything but nothing, or, if so asked, what `prepare` wrote.

    Raises:
        DataError: something is in the way.
    """
    _check_words("overwrite", overwrite, get_args(Overwrite))
    if place.is_dir() and overwrite == "replace" and any(place.iterdir()):
        _check_is_ours(place)
    elif place.is_dir() and any(place.iterdir()):
        raise DataError(
            "the directory to make exists and is not empty",
            where=str(place),
            cure="choose another, or let it be replaced (--overwrite)",
        )
    elif place.exists() and not place.is_dir():
        raise DataError(
            "a file is where the directory is to be made", where=str(place), cure="choose another"
        )


def _check_is_ours(place: Path) -> None:
    """A directory is replaced only if `prepare` wrote it and nothing was put beside: that would be lost."""
    try:
        records = read_manifest(place).files
    except DataError as error:
        raise DataError(
            f"the directory to replace was not written by prepare: {error.what}",
            where=str(place),
            cure="choose another, or move this one away",
        ) from error
    known = {record.name for record in records} | {MANIFEST_NAME}
    foreign = sorted(path.name for path in place.iterdir() if path.name not in known)
    if foreign:
        raise DataError(
            f"the directory to replace holds what prepare did not write: {', '.join(foreign[:5])}",
            where=str(place),
            cure="move that elsewhere, or choose another directory",
        )
