"""Parallel text: two files, or the columns of one, read as pairs that stay pairs.

Paper: 5.1
Silent: how a development set is chosen when none is given; here a share of the pairs, by seed and number.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import zip_longest
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.errors import ConfigError, DataError
from dragoman.text.lines import (
    STANDARD_STREAM,
    RawUnit,
    count_units,
    decode_unit,
    name_of,
    open_bytes,
    read_raw_units,
    reading,
    refuse_standard_input_twice,
)
from dragoman.text.skips import SkipLog

PathLike = str | os.PathLike[str]
Paths = PathLike | Sequence[PathLike]
PairBadBytes = Literal["refuse", "replace", "skip"]
Side = Literal["source", "target"]

BAD_BYTES = "not UTF-8"  # the reason in a skip report
_LARGEST_DEFAULT_DEV = 2000
_BLOCK_PAIRS = 1_000_000  # looked at together, for the sake of memory


@dataclass(frozen=True, slots=True)
class Pair:
    """Pair `index` (from 0, over the whole corpus, counting those skipped) of a parallel text."""

    index: int
    source: str
    target: str


class SpooledInput(os.PathLike[str]):
    """Standard input or a pipe, copied to a temporary file so that it can be read more than once.

    The file goes when this object does.

    Args:
        path: "-" or the path of a pipe.
    """

    def __init__(self, path: PathLike) -> None:
        self.display_name = name_of(path)
        self._file = tempfile.NamedTemporaryFile(prefix="dragoman-")  # noqa: SIM115 (lives as long as this)
        with reading(path):
            shutil.copyfileobj(open_bytes(path), self._file)
            self._file.flush()

    def __fspath__(self) -> str:
        return self._file.name


class _RawPair(NamedTuple):
    number: int  # line of its file, from 1
    source: RawUnit
    target: RawUnit


@dataclass(frozen=True)
class _TwoFiles:
    source: PathLike
    target: PathLike

    def count(self) -> int:
        counts = count_units(self.source), count_units(self.target)
        if counts[0] != counts[1]:
            raise _unequal(self.source, self.target, *counts)
        return counts[0]

    def raw_pairs(self) -> Iterator[_RawPair]:
        sides = zip_longest(read_raw_units(self.source), read_raw_units(self.target))
        for number, (source, target) in enumerate(sides, 1):
            if source is None or target is None:  # changed since it was counted
                self.count()
                raise DataError(
                    "a file changed while it was read",
                    where=f"{self.source}, {self.target}",
                    cure="try again when nothing writes to it",
                )
            yield _RawPair(number, source, target)


@dataclass(frozen=True)
class _TsvFile:
    source: PathLike
    source_column: int
    target_column: int

    @property
    def target(self) -> PathLike:
        return self.source

    def count(self) -> int:
        return count_units(self.source)

    def raw_pairs(self) -> Iterator[_RawPair]:
        for number, unit in enumerate(read_raw_units(self.source), 1):
            columns = _columns(unit)
            if len(columns) <= max(self.source_column, self.target_column):
                columns = self._too_few(columns, number)
            yield _RawPair(number, columns[self.source_column], columns[self.target_column])

    def _too_few(self, columns: list[RawUnit], number: int) -> list[RawUnit]:
        """A row with nothing on it is a blank pair; any other is an error."""
        wanted = max(self.source_column, self.target_column) + 1
        if len(columns) == 1 and not columns[0].data:
            return columns * wanted
        raise DataError(
            f"the row has {len(columns)} tab-separated column(s), {wanted} are needed",
            where=f"{name_of(self.source)}, line {number}",
            cure="mend the row, or give source and target as two files (or one text alone: --one-text)",
        )


@dataclass(frozen=True)
class _OneFile:
    source: PathLike

    @property
    def target(self) -> PathLike:
        return self.source

    def count(self) -> int:
        return count_units(self.source)

    def raw_pairs(self) -> Iterator[_RawPair]:
        for number, unit in enumerate(read_raw_units(self.source), 1):
            yield _RawPair(number, unit, unit)


_Part = _TwoFiles | _TsvFile | _OneFile


@dataclass(frozen=True)
class ParallelText:
    """Source and target texts whose k-th lines belong together; never held in memory.

    Several files a side are read one after another. Standard input ("-") and pipes are copied to temporary
    files when this is made, as everything is read twice: once to count.

    Args:
        source: a path, or several, by the line rule of `dragoman.text.lines`.
        target: as many paths.
        columns: numbers (from 0) of the source and target columns, when the files are TSV; then source and
            target name the same files. Use `ParallelText.tsv`.
        one_text: there is no translation; each line stands on both sides. Use `ParallelText.alone`.

    Raises:
        ConfigError: unequal numbers of files, none, or "-" twice.
    """

    source: Paths
    target: Paths
    columns: tuple[int, int] | None = None
    one_text: bool = False
    _parts: tuple[_Part, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        sources, targets = _as_tuple(self.source), _as_tuple(self.target)
        if len(sources) != len(targets) or not sources:
            raise ConfigError(
                f"{len(sources)} source and {len(targets)} target files are given",
                cure="give as many target files as source files, in the same order, and at least one",
            )
        object.__setattr__(self, "_parts", self._make_parts(sources, targets))

    def _make_parts(self, sources: tuple[PathLike, ...], targets: tuple[PathLike, ...]) -> tuple[_Part, ...]:
        named = sources if self.columns is not None or self.one_text else sources + targets
        refuse_standard_input_twice(*named)
        if self.one_text:
            return tuple(_OneFile(_spooled(path)) for path in sources)
        if self.columns is None:
            return tuple(_TwoFiles(_spooled(s), _spooled(t)) for s, t in zip(sources, targets, strict=True))
        if min(self.columns) < 0:
            raise ConfigError(
                f"the columns {self.columns} are not both 0 or more", cure="columns count from 0"
            )
        return tuple(_TsvFile(_spooled(path), *self.columns) for path in sources)

    @classmethod
    def tsv(cls, path: Paths, *, source_column: int = 0, target_column: int = 1) -> ParallelText:
        """Pairs from two columns (from 0) of tab-separated files, which have no quoting."""
        return cls(path, path, columns=(source_column, target_column))

    @classmethod
    def alone(cls, path: Paths) -> ParallelText:
        """A text that has no translation."""
        return cls(path, path, one_text=True)

    @property
    def called(self) -> str:
        """What it is made of: "pairs", or "lines" of one text."""
        return "lines" if self.one_text else "pairs"

    @cached_property
    def _counts(self) -> tuple[int, ...]:
        return tuple(part.count() for part in self._parts)

    def count(self) -> int:
        """The number of pairs; a pass over the bytes, made once for this object.

        Raises:
            DataError: source and target differ in their number of lines (both names, both numbers), or a
                file cannot be read.
        """
        return sum(self._counts)

    def pairs(self, *, bad_bytes: PairBadBytes = "refuse", skips: SkipLog | None = None) -> Iterator[Pair]:
        """Read all pairs in order, in a stream, after `count` has found the sides equal.

        Args:
            bad_bytes: "refuse" bytes that are not UTF-8, "replace" them by U+FFFD, or "skip" the pair.
            skips: gets the number (index + 1) of each pair skipped.

        Raises:
            DataError: as `count`, before the first pair; bad bytes or a missing column, when met.
        """
        if bad_bytes not in ("refuse", "replace", "skip"):
            raise ConfigError(f'bad_bytes is "{bad_bytes}"', cure='use "refuse", "replace" or "skip"')
        self.count()
        return self._read_pairs(bad_bytes, skips if skips is not None else SkipLog())

    def _read_pairs(self, bad_bytes: PairBadBytes, skips: SkipLog) -> Iterator[Pair]:
        index = 0
        for part in self._parts:
            for raw in part.raw_pairs():
                texts = _decode(part, raw, bad_bytes)
                if texts is None:
                    skips.add(BAD_BYTES, index + 1)
                else:
                    yield Pair(index, *texts)
                index += 1

    def side(self, side: Side, *, bad_bytes: PairBadBytes = "refuse") -> SideText:
        """The units of one side, to be read as often as wanted."""
        return SideText(self, side, bad_bytes)

    def where(self, index: int) -> str:
        """The file or files and the line (from 1) of pair `index` (from 0)."""
        line = index
        for part, count in zip(self._parts, self._counts, strict=True):
            if line < count:
                names = dict.fromkeys((name_of(part.source), name_of(part.target)))
                return f"{', '.join(names)}, line {line + 1}"
            line -= count
        raise IndexError(f"pair {index} of {self.count()}")


@dataclass(frozen=True)
class SideText:
    """One side of a parallel text as an iterable of units; each iteration reads the files anew."""

    corpus: ParallelText
    side: Side
    bad_bytes: PairBadBytes = "refuse"

    def __iter__(self) -> Iterator[str]:
        for pair in self.corpus.pairs(bad_bytes=self.bad_bytes):
            yield pair.source if self.side == "source" else pair.target


def default_dev_size(pair_count: int) -> int:
    """One pair in a hundred, at least 1 and at most 2000."""
    return min(_LARGEST_DEFAULT_DEV, max(1, pair_count // 100))


def split_dev(pair_count: int, *, seed: int, dev_size: int | None = None) -> npt.NDArray[np.int64]:
    """Choose the pairs of a development set when none is given.

    The choice depends on nothing but the arguments: the pairs with the smallest hashes of (seed, index),
    in integer arithmetic, so it is the same with any version of any library. A pair chosen may occur
    elsewhere in the corpus with the same text: leave out of training what `pair_key` finds in both.

    Args:
        pair_count: pairs in the corpus.
        seed: 0 or more.
        dev_size: pairs wanted; `default_dev_size` when not given.

    Returns:
        Their indices (from 0), rising.

    Raises:
        ConfigError: no pair would be left for training, or none be chosen.
    """
    size = default_dev_size(pair_count) if dev_size is None else dev_size
    if not 0 < size < pair_count:
        raise ConfigError(
            f"{size} of {pair_count} pairs cannot be split off for development",
            cure="give a development set of its own, a smaller number, or more training pairs",
        )
    chosen, keys = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
    for start in range(0, pair_count, _BLOCK_PAIRS):
        numbers = np.arange(start, min(start + _BLOCK_PAIRS, pair_count), dtype=np.uint64)
        chosen, keys = np.concatenate([chosen, numbers]), np.concatenate([keys, _mixed(numbers, seed)])
        smallest = np.argpartition(keys, min(size, len(keys)) - 1)[:size]  # no two keys are equal
        chosen, keys = chosen[smallest], keys[smallest]
    return np.sort(chosen).astype(np.int64)


def pair_key(source: str, target: str) -> bytes:
    """16 bytes that are equal for equal pairs, to find a pair of one set in another."""
    digest = blake2b(digest_size=16)
    for text in (source, target):
        data = text.encode("utf-8", errors="surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()


def _mixed(numbers: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """SplitMix64: a bijection of 64-bit numbers that looks random, one for each seed."""
    start = int.from_bytes(blake2b(str(seed).encode(), digest_size=8).digest(), "little")
    with np.errstate(over="ignore"):
        z = numbers * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _decode(part: _Part, raw: _RawPair, bad_bytes: PairBadBytes) -> tuple[str, str] | None:
    if bad_bytes == "skip":
        try:
            return raw.source.data.decode("utf-8"), raw.target.data.decode("utf-8")
        except UnicodeDecodeError:
            return None
    return (
        decode_unit(raw.source, bad_bytes=bad_bytes, where=name_of(part.source), number=raw.number),
        decode_unit(raw.target, bad_bytes=bad_bytes, where=name_of(part.target), number=raw.number),
    )


def _columns(unit: RawUnit) -> list[RawUnit]:
    columns, offset = [], unit.offset
    for data in unit.data.split(b"\t"):
        columns.append(RawUnit(data, offset))
        offset += len(data) + 1
    return columns


def _unequal(source: PathLike, target: PathLike, source_count: int, target_count: int) -> DataError:
    return DataError(
        f"source and target differ in their number of lines: {name_of(source)} has {source_count}, "
        f"{name_of(target)} has {target_count}",
        where=f"{name_of(source)}, {name_of(target)}",
        cure="line k of one must be the translation of line k of the other; lines end at LF only",
    )


def _spooled(path: PathLike) -> PathLike:
    readable_once = os.fspath(path) == STANDARD_STREAM or (os.path.exists(path) and _is_pipe(path))
    return SpooledInput(path) if readable_once else path


def _is_pipe(path: PathLike) -> bool:
    """A named pipe, or what a shell puts for <(command)."""
    mode = os.stat(path).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)


def _as_tuple(paths: Paths) -> tuple[PathLike, ...]:
    return (paths,) if isinstance(paths, str | os.PathLike) else tuple(paths)
