"""The files of a prepared corpus, from what the first pass found; the manifest comes last.

Paper: none (infrastructure)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dragoman import __version__
from dragoman.data.census import Census, Role
from dragoman.data.choices import Choices
from dragoman.data.encode import Encoding, encode_splits
from dragoman.data.inputs import Languages, Texts, file_names
from dragoman.data.learn import Vocabularies
from dragoman.data.manifest import (
    LeftOut,
    Manifest,
    Origin,
    Side,
    Split,
    VocabularyRecord,
    file_records,
    write_manifest,
)
from dragoman.data.prepared import LEFT_OUT_NAME, REPORT_NAME
from dragoman.data.report import report_lines
from dragoman.text.lines import write_units
from dragoman.text.subwords import Subwords


@dataclass(frozen=True)
class Preparation:
    """Everything that is known before the first file is written."""

    texts: Texts
    censuses: dict[Split, Census]
    vocabularies: Vocabularies
    choices: Choices
    languages: Languages
    notes: tuple[str, ...]

    @property
    def separate_censuses(self) -> dict[Split, Census]:
        """One for each text: a dev set that was split off is told of with the text it comes from."""
        return self.censuses if self.texts.dev is not None else {"train": self.censuses["train"]}


def write_prepared(directory: Path, made: Preparation) -> None:
    """Fill `directory`.

    Raises:
        DataError: a split has no pair left, or a text changed since the first pass.
    """
    records = _save_vocabularies(directory, made.vocabularies)
    total = made.censuses["train"].count(Role.TRAIN) + made.censuses["dev"].count(Role.DEV)
    encoding = Encoding(
        made.vocabularies.source,
        made.vocabularies.target,
        made.choices.max_unit_tokens,
        made.choices.learning.entities,
        made.texts.train.one_text,
    )
    splits = encode_splits(directory, made.censuses, encoding, tick=made.choices.tick("encoding", total))
    _write_left_out(directory, made)
    manifest = Manifest(
        source_language=made.languages.source,
        target_language=made.languages.target,
        one_text=made.texts.train.one_text,
        splits=splits,
        vocabularies=records,
        left_out=_left_out(made),
        notes=(*made.notes, *made.vocabularies.notes),
        origin=_origin(made),
        files=(),
    )
    write_units(directory / REPORT_NAME, report_lines(manifest))
    write_manifest(directory, manifest.model_copy(update={"files": file_records(directory)}))


def _save_vocabularies(directory: Path, vocabularies: Vocabularies) -> dict[Side, VocabularyRecord]:
    if vocabularies.source is vocabularies.target:
        shared = _save_subwords(directory / "subwords.model", vocabularies.source)
        return {"source": shared, "target": shared}
    return {
        "source": _save_subwords(directory / "source.subwords.model", vocabularies.source),
        "target": _save_subwords(directory / "target.subwords.model", vocabularies.target),
    }


def _save_subwords(path: Path, subwords: Subwords) -> VocabularyRecord:
    path.write_bytes(subwords.to_bytes())
    return VocabularyRecord(file=path.name, size=subwords.vocab_size, digest=subwords.digest)


def _write_left_out(directory: Path, made: Preparation) -> None:
    rows = (
        f"{split}\t{line}\t{reason}"
        for split, census in made.separate_censuses.items()
        for line, reason in census.left_out_rows()
    )
    write_units(directory / LEFT_OUT_NAME, rows)


def _left_out(made: Preparation) -> tuple[LeftOut, ...]:
    return tuple(
        LeftOut(where=entry.where, reason=entry.reason, count=entry.count, numbers=entry.numbers)
        for split, census in made.separate_censuses.items()
        for entry in census.left_out(split).entries
    )


def _origin(made: Preparation) -> Origin:
    train, dev, choices = made.texts.train, made.texts.dev, made.choices
    learned = choices.subwords is None
    return Origin(
        made_by=f"dragoman {__version__}",
        source_files=file_names(train.source),
        target_files=file_names(train.target),
        dev_source_files=() if dev is None else file_names(dev.source),
        dev_target_files=() if dev is None else file_names(dev.target),
        pairs_read=len(made.censuses["train"]),
        dev_pairs_read=0 if dev is None else len(made.censuses["dev"]),
        choices={
            "seed": choices.seed,
            "bad_bytes": choices.bad_bytes,
            "entities": choices.learning.entities,
            "max_unit_tokens": choices.max_unit_tokens,
            "subwords": "learned" if learned else "given",
            "vocab_size": choices.learning.vocab_size if learned else None,
            "size_policy": choices.learning.size_policy if learned else None,
            "byte_fallback": choices.learning.byte_fallback if learned else None,
        },
    )
