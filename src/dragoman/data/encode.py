"""The second pass over a parallel corpus: text to ids to shards, a thousand pairs at a time.

Paper: 5.1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from dragoman.data.census import Census, Role, Tick, changed
from dragoman.data.entities import Entities, as_chosen
from dragoman.data.manifest import Split, SplitRecord
from dragoman.data.prepared import DEV_TEXTS
from dragoman.data.shards import ShardWriter
from dragoman.errors import DataError
from dragoman.text.corpus import Pair
from dragoman.text.lines import encode_unit
from dragoman.text.subwords import Subwords

_CHUNK_PAIRS = 1000


@dataclass(frozen=True)
class Encoding:
    """How text becomes ids."""

    source_subwords: Subwords
    target_subwords: Subwords
    max_unit_tokens: int
    entities: Entities
    one_text: bool = False

    def of(self, text: str) -> str:
        """The text that is encoded, and kept of a dev set."""
        return as_chosen(text, self.entities)


@dataclass(frozen=True)
class _Encoded:
    pair: Pair
    source_ids: list[int]
    target_ids: list[int]


class SplitWriter:
    """Writes one split: its shards, and for the dev set its text as well."""

    def __init__(self, directory: Path, split: Split, encoding: Encoding) -> None:
        self._shards = ShardWriter(
            directory,
            split,
            source_vocabulary_size=encoding.source_subwords.vocab_size,
            target_vocabulary_size=encoding.target_subwords.vocab_size,
            one_text=encoding.one_text,
        )
        self._texts: list[BinaryIO] = []
        if split == "dev":
            names = list(DEV_TEXTS.values())[: 1 if encoding.one_text else 2]
            self._texts = [(directory / name).open("xb") for name in names]

    def append(self, encoded: Sequence[_Encoded]) -> None:
        """Add pairs in order."""
        for number, item in enumerate(encoded, self._shards.pairs + 1):
            for stream, unit in zip(self._texts, (item.pair.source, item.pair.target), strict=False):
                stream.write(encode_unit(unit, number=number, where=stream.name))
        self._shards.append(
            [item.source_ids for item in encoded],
            [item.target_ids for item in encoded],
            [item.pair.index + 1 for item in encoded],
        )

    def close(self) -> SplitRecord:
        """Finish the files."""
        for stream in self._texts:
            stream.close()
        return self._shards.close()

    def __enter__(self) -> SplitWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def encode_splits(
    directory: Path, censuses: Mapping[Split, Census], encoding: Encoding, *, tick: Tick
) -> dict[Split, SplitRecord]:
    """Write the shards of both splits, each text being read once.

    Args:
        directory: where to write.
        censuses: that of each split; the same one for both where the dev set was split off.
        encoding: the subword models and limits; pairs over a limit get the role TOO_LONG.
        tick: told the pairs done.

    Raises:
        DataError: a split has no pair left, or a text changed since its census.
    """
    with ExitStack() as stack:
        writers = {
            Role.TRAIN: stack.enter_context(SplitWriter(directory, "train", encoding)),
            Role.DEV: stack.enter_context(SplitWriter(directory, "dev", encoding)),
        }
        for census in dict.fromkeys(censuses.values()):
            _encode(census, writers, encoding, tick)
        records: dict[Split, SplitRecord] = {
            "train": writers[Role.TRAIN].close(),
            "dev": writers[Role.DEV].close(),
        }
    for split, record in records.items():
        if not record.pairs:
            raise DataError(
                f"no pair is left for the {split} set: all have over {encoding.max_unit_tokens} tokens",
                cure="raise max_unit_tokens, or give text with shorter lines",
            )
    return records


def _encode(census: Census, writers: Mapping[Role, SplitWriter], encoding: Encoding, tick: Tick) -> None:
    wanted = sum(census.count(role) for role in writers)
    done = 0
    for pairs in _chunks(census.pairs(*writers), encoding):
        by_role = _by_role(_encode_chunk(pairs, encoding), census, encoding.max_unit_tokens)
        for role, writer in writers.items():
            writer.append(by_role[role])
        done += len(pairs)
        tick(done)
    if done != wanted:
        raise changed(census.text)


def _by_role(encoded: Sequence[_Encoded], census: Census, max_unit_tokens: int) -> dict[int, list[_Encoded]]:
    """Part pairs by their roles; those over the limit become TOO_LONG."""
    roles: list[int] = census.roles[[item.pair.index for item in encoded]].tolist()
    parted: dict[int, list[_Encoded]] = {role: [] for role in Role}
    for item, role in zip(encoded, roles, strict=True):
        if max(len(item.source_ids), len(item.target_ids)) < max_unit_tokens:  # less: the EOS counts
            parted[role].append(item)
        else:
            census.roles[item.pair.index] = Role.TOO_LONG
    return parted


def _chunks(pairs: Iterator[Pair], encoding: Encoding) -> Iterator[list[Pair]]:
    while chunk := list(islice(pairs, _CHUNK_PAIRS)):
        yield [Pair(pair.index, encoding.of(pair.source), encoding.of(pair.target)) for pair in chunk]


def _encode_chunk(pairs: Sequence[Pair], encoding: Encoding) -> list[_Encoded]:
    sources = encoding.source_subwords.encode_batch([pair.source for pair in pairs])
    targets = (
        sources
        if encoding.one_text
        else encoding.target_subwords.encode_batch([pair.target for pair in pairs])
    )
    return [_Encoded(*parts) for parts in zip(pairs, sources, targets, strict=True)]
