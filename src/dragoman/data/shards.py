"""Token shards: memory-mapped `.npy` arrays of ids and offsets, written in one streaming pass.

Paper: none (infrastructure)

A split holds, for each side, `<split>.<side>.ids.npy` (all units one after the other, each with EOS at its
end and no BOS; uint16 when the vocabulary allows, else int32) and `<split>.<side>.offsets.npy` (int64, pairs
+ 1 entries: unit k is ids[offsets[k]:offsets[k + 1]]), and `<split>.lines.npy` (int64): the line number, from
1, that pair k was read from. Of one text that has no translation there are the source's files alone, and the source
is the target too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
from jaxtyping import Int32, Int64, Integer

from dragoman.data.manifest import (
    FileRecord,
    IdType,
    Manifest,
    Side,
    Split,
    SplitRecord,
    check_digests,
    check_sizes,
    damaged,
    read_manifest,
)
from dragoman.errors import DataError
from dragoman.text.subwords import Subwords

# Fixed, so that the header can be written again in place once the number of entries is known.
_HEADER_BYTES = 128


class ArrayWriter:
    """A one-dimensional `.npy` file that grows at its end; it has its true header only after `close`."""

    def __init__(self, path: Path, dtype: np.dtype[np.integer]) -> None:
        self.count = 0
        self._dtype = dtype.newbyteorder("<")
        self._stream = path.open("xb")
        self._stream.write(_header(self._dtype, 0))

    def append(self, values: Integer[np.ndarray, " n"]) -> None:
        """Write `values` after what is there; they must fit the type."""
        self._stream.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self.count += len(values)

    def close(self) -> None:
        """Put the true header in place; a second call does nothing."""
        if not self._stream.closed:
            self._stream.seek(0)
            self._stream.write(_header(self._dtype, self.count))
            self._stream.close()


def _header(dtype: np.dtype[np.integer], count: int) -> bytes:
    """A `.npy` version 1.0 header of `_HEADER_BYTES` bytes."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({count},), }}"
    body = text.ljust(_HEADER_BYTES - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body.encode("ascii")


def id_type(vocabulary_size: int) -> IdType:
    """The smaller of the two types that ids are stored in which holds them: uint16 up to 65,536 entries."""
    return "uint16" if vocabulary_size <= 65_536 else "int32"


def ids_file(split: Split, side: Side) -> str:
    """Name of the file of ids."""
    return f"{split}.{side}.ids.npy"


def offsets_file(split: Split, side: Side) -> str:
    """Name of the file of offsets."""
    return f"{split}.{side}.offsets.npy"


def lines_file(split: Split) -> str:
    """Name of the file of line numbers."""
    return f"{split}.lines.npy"


class _SideWriter:
    """Ids and offsets of one side."""

    def __init__(self, directory: Path, split: Split, side: Side, vocabulary_size: int) -> None:
        self.type = id_type(vocabulary_size)
        self._vocabulary_size = vocabulary_size
        self._ids = ArrayWriter(directory / ids_file(split, side), np.dtype(self.type))
        self._offsets = ArrayWriter(directory / offsets_file(split, side), np.dtype(np.int64))
        self._offsets.append(np.zeros(1, np.int64))

    @property
    def tokens(self) -> int:
        return self._ids.count

    def append(self, units: Sequence[Sequence[int]]) -> None:
        lengths = np.fromiter((len(unit) + 1 for unit in units), np.int64, len(units))
        flat = np.fromiter(
            chain.from_iterable((*unit, Subwords.EOS_ID) for unit in units), np.int64, int(lengths.sum())
        )
        assert not len(flat) or (flat.min() >= 0 and flat.max() < self._vocabulary_size), (
            "id outside the vocabulary"
        )
        self._offsets.append(self.tokens + np.cumsum(lengths))
        self._ids.append(flat)

    def close(self) -> None:
        self._ids.close()
        self._offsets.close()


class ShardWriter:
    """Streams the pairs of one split to disk; holds no more than the pairs of one `append`.

    Args:
        directory: where to write; the files must not exist.
        split: "train" or "dev".
        source_vocabulary_size: decides the type of the source ids.
        target_vocabulary_size: decides the type of the target ids.
        one_text: the targets are the sources, and are not written.
    """

    def __init__(
        self,
        directory: Path,
        split: Split,
        *,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        one_text: bool = False,
    ) -> None:
        self.pairs = 0
        self._source = _SideWriter(directory, split, "source", source_vocabulary_size)
        self._target = (
            self._source if one_text else _SideWriter(directory, split, "target", target_vocabulary_size)
        )
        self._lines = ArrayWriter(directory / lines_file(split), np.dtype(np.int64))

    def append(
        self,
        source_units: Sequence[Sequence[int]],
        target_units: Sequence[Sequence[int]],
        line_numbers: Sequence[int],
    ) -> None:
        """Add pairs.

        Args:
            source_units: ids of each source, without BOS and EOS (EOS is added here).
            target_units: the same for each target.
            line_numbers: the line, from 1, each pair comes from.
        """
        assert len(source_units) == len(target_units) == len(line_numbers), "sides of unequal length"
        self._source.append(source_units)
        if self._target is not self._source:
            self._target.append(target_units)
        self._lines.append(np.fromiter(line_numbers, np.int64, len(line_numbers)))
        self.pairs += len(line_numbers)

    def close(self) -> SplitRecord:
        """Finish the files; what they hold, for the manifest."""
        for part in (self._source, self._target, self._lines):
            part.close()
        return SplitRecord(
            pairs=self.pairs,
            source_tokens=self._source.tokens,
            target_tokens=self._target.tokens,
            source_dtype=self._source.type,
            target_dtype=self._target.type,
        )

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PairShards:
    """The pairs of one split, memory-mapped.

    Holds no Python object per pair, and pickles as its place alone, so worker processes share the pages
    (B26). Open with `PairShards.open`.
    """

    def __init__(self, directory: Path, split: Split, manifest: Manifest) -> None:
        self.directory = directory
        self.split: Split = split
        self.manifest = manifest
        check_sizes(directory, _records(manifest, split))
        record = manifest.splits[split]
        self.source_ids = _load(
            directory, ids_file(split, "source"), record.source_dtype, record.source_tokens
        )
        self.source_offsets = _load_offsets(directory, split, "source", self.source_ids, record.pairs)
        if manifest.one_text:
            self.target_ids, self.target_offsets = self.source_ids, self.source_offsets
        else:
            self.target_ids = _load(
                directory, ids_file(split, "target"), record.target_dtype, record.target_tokens
            )
            self.target_offsets = _load_offsets(directory, split, "target", self.target_ids, record.pairs)
        self.line_numbers = _load(directory, lines_file(split), "int64", record.pairs)

    @classmethod
    def open(cls, directory: Path | str, split: Split) -> PairShards:
        """Open a split of a prepared corpus.

        Manifest, file sizes and array headers are checked; `verify` reads every byte.

        Args:
            directory: what `prepare` wrote.
            split: "train" or "dev".

        Raises:
            DataError: the directory is no prepared corpus, lacks the split, or a file is damaged; the file is
                named.
        """
        place = Path(directory)
        manifest = read_manifest(place)
        if split not in manifest.splits:
            raise DataError(
                f"the prepared corpus has no {split!r} split",
                where=str(place),
                cure="prepare the corpus again",
            )
        return cls(place, split, manifest)

    def __reduce__(self) -> tuple[object, tuple[Path, Split]]:
        return PairShards.open, (self.directory, self.split)

    def __len__(self) -> int:
        return len(self.line_numbers)

    def source(self, k: int) -> Integer[np.ndarray, " s"]:
        """The ids of source k, EOS at the end."""
        return _unit(self.source_ids, self.source_offsets, k)

    def target(self, k: int) -> Integer[np.ndarray, " t"]:
        """The ids of target k, EOS at the end."""
        return _unit(self.target_ids, self.target_offsets, k)

    @cached_property
    def source_lengths(self) -> Int32[np.ndarray, " pairs"]:
        """Tokens of each source, EOS counted."""
        return np.diff(self.source_offsets).astype(np.int32)

    @cached_property
    def target_lengths(self) -> Int32[np.ndarray, " pairs"]:
        """Tokens of each target, EOS counted."""
        return np.diff(self.target_offsets).astype(np.int32)

    def verify(self) -> None:
        """Read every byte of the split and compare with the manifest's SHA-256.

        Raises:
            DataError: names the damaged file.
        """
        check_digests(self.directory, _records(self.manifest, self.split))


def _records(manifest: Manifest, split: Split) -> list[FileRecord]:
    """The records of the split's files; a manifest without one of them is refused."""
    by_name = {record.name: record for record in manifest.files}
    names = [lines_file(split)]
    for side in manifest.sides:
        names += [ids_file(split, side), offsets_file(split, side)]
    missing = [name for name in names if name not in by_name]
    if missing:
        raise DataError(f"the manifest has no record of {missing[0]}", cure="prepare the corpus again")
    return [by_name[name] for name in names]


def _load(directory: Path, name: str, dtype: str, count: int) -> Integer[np.ndarray, " n"]:
    """Map one array and compare its header with the manifest."""
    path = directory / name
    with path.open("rb") as stream:
        header = stream.read(_HEADER_BYTES)
    if header != _header(np.dtype(dtype).newbyteorder("<"), count):
        raise damaged(path, f"its header is not that of {count} numbers of type {dtype}")
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    # A plain view of the map: the subclass costs time at every index and does nothing for us.
    return np.asarray(array)


def _load_offsets(
    directory: Path, split: Split, side: Side, ids: Integer[np.ndarray, " n"], pairs: int
) -> Int64[np.ndarray, " m"]:
    """Map offsets; they must begin at 0 and end at the number of ids."""
    name = offsets_file(split, side)
    offsets = _load(directory, name, "int64", pairs + 1)
    if offsets[0] != 0 or offsets[-1] != len(ids):
        raise damaged(directory / name, "its offsets do not span the ids")
    return offsets


def _unit(
    ids: Integer[np.ndarray, " n"], offsets: Int64[np.ndarray, " n"], k: int
) -> Integer[np.ndarray, " length"]:
    pairs = len(offsets) - 1
    if not -pairs <= k < pairs:
        raise IndexError(f"pair {k} of {pairs}")
    k %= pairs
    return ids[offsets[k] : offsets[k + 1]]
