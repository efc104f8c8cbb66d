"""A prepared corpus on disk: opened, checked, and what is in it.

Paper: none (infrastructure)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.data.manifest import (
    Manifest,
    Side,
    check_digests,
    check_sizes,
    damaged,
    read_manifest,
)
from dragoman.data.shards import PairShards
from dragoman.errors import DataError
from dragoman.text.lines import read_units
from dragoman.text.skips import Skipped, SkipReport
from dragoman.text.subwords import Subwords

REPORT_NAME = "report.txt"
LEFT_OUT_NAME = "left-out.tsv"
DEV_TEXTS: dict[Side, str] = {"source": "dev.source.txt", "target": "dev.target.txt"}


@dataclass(frozen=True)
class DevTexts:
    """The dev set as text: unit k of either side belongs to pair k of the dev shards."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class LeftOutPair:
    """One pair that is in no shard: the split it came with, its line from 1, and why."""

    split: str
    line: int
    reason: str


@dataclass(frozen=True, eq=False)
class PreparedCorpus:
    """What `prepare` wrote. Open one with `open_prepared`."""

    directory: Path
    manifest: Manifest
    train: PairShards
    dev: PairShards
    source_subwords: Subwords
    target_subwords: Subwords

    @property
    def joint(self) -> bool:
        """Whether both sides share one subword model (and with it, 3.4, one embedding)."""
        return self.source_subwords is self.target_subwords

    @property
    def one_text(self) -> bool:
        """Whether it is one text that has no translation, for a language model."""
        return self.manifest.one_text

    @property
    def source_language(self) -> str | None:
        """Code of the source language, where known."""
        return self.manifest.source_language

    @property
    def target_language(self) -> str | None:
        """Code of the target language, where known."""
        return self.manifest.target_language

    @property
    def left_out(self) -> SkipReport:
        """Pairs left out, by split and reason, the first of them by line number."""
        return SkipReport(
            tuple(Skipped(e.where, e.reason, e.count, e.numbers) for e in self.manifest.left_out)
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided for the user and should be said aloud."""
        return self.manifest.notes

    @property
    def report(self) -> str:
        """The readable report, as in `report.txt`."""
        return (self.directory / REPORT_NAME).read_text(encoding="utf-8")

    def left_out_pairs(self) -> Iterator[LeftOutPair]:
        """Every pair left out, from `left-out.tsv`."""
        for row in read_units(self.directory / LEFT_OUT_NAME):
            split, line, reason = row.split("\t")
            yield LeftOutPair(split, int(line), reason)

    def dev_texts(self) -> DevTexts:
        """The dev set as text, for scores."""
        texts = {}
        for side in self.manifest.sides:
            texts[side] = units = tuple(read_units(self.directory / DEV_TEXTS[side]))
            if len(units) != len(self.dev):
                raise damaged(
                    self.directory / DEV_TEXTS[side], f"{len(units)} lines instead of {len(self.dev)}"
                )
        return DevTexts(texts["source"], texts.get("target", texts["source"]))

    def verify(self) -> None:
        """Read every byte and compare with the manifest's SHA-256.

        Raises:
            DataError: names the damaged file.
        """
        check_digests(self.directory, self.manifest.files)


def open_prepared(directory: Path | str) -> PreparedCorpus:
    """Open what `prepare` wrote.

    Sizes of all files, headers of all arrays and the digests of the subword models are checked;
    `PreparedCorpus.verify` reads the rest.

    Raises:
        DataError: it is no prepared corpus, or a file of it is damaged; the file is named.
    """
    place = Path(directory)
    manifest = read_manifest(place)
    check_sizes(place, manifest.files)
    source_subwords = _subwords(place, manifest, "source")
    shared = manifest.vocabularies.get("target") == manifest.vocabularies["source"]
    return PreparedCorpus(
        directory=place,
        manifest=manifest,
        train=PairShards.open(place, "train"),
        dev=PairShards.open(place, "dev"),
        source_subwords=source_subwords,
        target_subwords=source_subwords if shared else _subwords(place, manifest, "target"),
    )


def _subwords(directory: Path, manifest: Manifest, side: Side) -> Subwords:
    if side not in manifest.vocabularies:
        raise DataError(
            f"the prepared corpus has no subwords for the {side}",
            where=str(directory),
            cure="prepare the corpus again",
        )
    record = manifest.vocabularies[side]
    path = directory / record.file
    if not path.is_file():
        raise damaged(path, "missing")
    model = path.read_bytes()
    if hashlib.sha256(model).hexdigest() != record.digest:
        raise damaged(path, "its digest is not the recorded one")
    return Subwords.from_bytes(model, name=str(path))
