"""The texts that `prepare` reads, their names and their languages.

Paper: none (infrastructure)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePath

from dragoman.data.language_codes import language_of, languages_of_table
from dragoman.errors import ConfigError
from dragoman.text.corpus import ParallelText, Paths
from dragoman.text.lines import name_of


@dataclass(frozen=True)
class Texts:
    """The training text, and the dev text where one is given."""

    train: ParallelText
    dev: ParallelText | None

    def count(self) -> None:
        """Count all pairs, so that unequal sides are refused before any work.

        Raises:
            DataError: sides differ in their number of lines, or a file cannot be read.
        """
        self.train.count()
        if self.dev is not None:
            self.dev.count()


@dataclass(frozen=True)
class Languages:
    """Codes of the languages, where known."""

    source: str | None
    target: str | None


def texts_of(
    source: Paths,
    target: Paths | None,
    dev_source: Paths | None,
    dev_target: Paths | None,
    columns: tuple[int, int],
    one_text: bool,
) -> Texts:
    """Put the paths together.

    Raises:
        ConfigError: the dev set is given by half, or in another way than the training text; or there is a translation
            of what is to be one text.
    """
    if one_text:
        return _one_text(source, target, dev_source, dev_target)
    if dev_source is None and dev_target is not None:
        raise ConfigError(
            "a dev target is given without its source", where="dev_source", cure="give both or none"
        )
    if dev_source is not None and (target is None) != (dev_target is None):
        raise ConfigError(
            "the dev set is not given in the way the training text is",
            where="dev_target",
            cure="give two files for each, or a file of columns for each",
        )
    dev = None if dev_source is None else _text(dev_source, dev_target, columns)
    return Texts(_text(source, target, columns), dev)


def _one_text(
    source: Paths, target: Paths | None, dev_source: Paths | None, dev_target: Paths | None
) -> Texts:
    for name, given in (("target", target), ("dev_target", dev_target)):
        if given is not None:
            raise ConfigError(
                "one text has no translation, and one is given",
                where=f"{name}, one_text",
                cure="leave one of them out",
            )
    return Texts(ParallelText.alone(source), None if dev_source is None else ParallelText.alone(dev_source))


def _text(source: Paths, target: Paths | None, columns: tuple[int, int]) -> ParallelText:
    if target is None:
        return ParallelText.tsv(source, source_column=columns[0], target_column=columns[1])
    return ParallelText(source, target)


def languages_of(text: ParallelText, source: str | None, target: str | None) -> Languages:
    """The languages as given, else as the name of the first file says."""
    first_source, first_target = file_names(text.source)[0], file_names(text.target)[0]
    if text.one_text:
        one = source or target or language_of(first_source)
        return Languages(one, one)
    if text.columns is None:
        return Languages(source or language_of(first_source), target or language_of(first_target))
    found = languages_of_table(first_source)
    return Languages(source or found[0], target or found[1])


def file_names(paths: Paths) -> tuple[str, ...]:
    """The names of files without their folders: a manifest tells no one where things were."""
    several = (paths,) if isinstance(paths, str | os.PathLike) else tuple(paths)
    return tuple(PurePath(name_of(path)).name for path in several)
