"""The manifest of a prepared corpus: counts, digests, origin and what was left out, checked on reading.

Paper: none (infrastructure)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman.data.durable import sync_file
from dragoman.errors import DataError, first_fault

MANIFEST_NAME = "manifest.json"
Split = Literal["train", "dev"]
Side = Literal["source", "target"]
IdType = Literal["uint16", "int32"]
SIDES: tuple[Side, Side] = ("source", "target")

# A name is one plain file in the directory itself: a manifest can never point outside it.
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0)]


class Record(BaseModel):
    """Base of the parts of a manifest: typed strictly, unchangeable, no unknown field."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class FileRecord(Record):
    """One file of the directory: its size in bytes and its SHA-256."""

    name: FileName
    bytes: Count
    sha256: Digest


class SplitRecord(Record):
    """What a split holds; token counts include the one EOS per unit."""

    pairs: Count
    source_tokens: Count
    target_tokens: Count
    source_dtype: IdType
    target_dtype: IdType


class VocabularyRecord(Record):
    """The subword model of one side; both sides name the same file when it is shared."""

    file: FileName
    size: Count
    digest: Digest


class LeftOut(Record):
    """Pairs left out of one place for one reason; `numbers` are the first lines, from 1.

    Every one of them, however many, is in `left-out.tsv`.
    """

    where: str
    reason: str
    count: Count
    numbers: tuple[int, ...]


class Origin(Record):
    """Where the corpus came from: file names without their folders, and the choices made."""

    made_by: str
    source_files: tuple[str, ...]
    target_files: tuple[str, ...]
    dev_source_files: tuple[str, ...]
    dev_target_files: tuple[str, ...]
    pairs_read: Count
    dev_pairs_read: Count
    choices: dict[str, str | int | bool | None]


class Manifest(Record):
    """Everything there is to know about a prepared directory before opening its arrays.

    Attributes:
        one_text: there is no translation; what is said of the source is true of the target, which has no files.
    """

    format: Literal["dragoman-prepared"] = "dragoman-prepared"
    version: Literal[1] = 1
    source_language: str | None
    target_language: str | None
    one_text: bool = False
    splits: dict[Split, SplitRecord]
    vocabularies: dict[Side, VocabularyRecord]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...]
    origin: Origin | None
    files: tuple[FileRecord, ...]

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides that have files."""
        return ("source",) if self.one_text else SIDES


def file_record(path: Path) -> FileRecord:
    """Size and SHA-256 of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return FileRecord(name=path.name, bytes=path.stat().st_size, sha256=digest.hexdigest())


def file_records(directory: Path) -> tuple[FileRecord, ...]:
    """The records of every file in `directory` but the manifest, by name."""
    paths = sorted(path for path in directory.iterdir() if path.name != MANIFEST_NAME)
    return tuple(file_record(path) for path in paths)


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write `manifest.json`, synced. It is the last file of a directory to be written."""
    path = directory / MANIFEST_NAME
    path.write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8", newline="\n")
    sync_file(path)


def read_manifest(directory: Path) -> Manifest:
    """Read and check `manifest.json`.

    Raises:
        DataError: there is none, it cannot be read, or it is of another format or version.
    """
    path = directory / MANIFEST_NAME
    try:
        text = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"not a prepared corpus: {error.strerror or error}",
            where=str(path),
            cure="give the directory that `dragoman prepare` wrote",
        ) from error
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        raise DataError(
            f"the manifest is damaged or of another version: {': '.join(first_fault(error, 'the file'))}",
            where=str(path),
            cure="prepare the corpus again with this version",
        ) from error


def check_sizes(directory: Path, files: Iterable[FileRecord]) -> None:
    """Refuse a file that is missing or not of its recorded size.

    Raises:
        DataError: names the first such file.
    """
    for record in files:
        path = directory / record.name
        found = path.stat().st_size if path.is_file() else None
        if found != record.bytes:
            state = "missing" if found is None else f"{found} bytes instead of {record.bytes}"
            raise damaged(path, state)


def check_digests(directory: Path, files: Iterable[FileRecord]) -> None:
    """Refuse a file whose size or SHA-256 is not the recorded one; reads every byte.

    Raises:
        DataError: names the first such file.
    """
    records = tuple(files)
    check_sizes(directory, records)
    for record in records:
        path = directory / record.name
        if file_record(path).sha256 != record.sha256:
            raise damaged(path, "its SHA-256 is not the recorded one")


def damaged(path: Path, state: str) -> DataError:
    """The error for a file of a prepared corpus that is not what the manifest says."""
    return DataError(
        f"a file of the prepared corpus is damaged: {path.name}: {state}",
        where=str(path),
        cure="copy the directory again, or prepare the corpus again",
    )
