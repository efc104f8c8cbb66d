"""Shards: what is written is what is read, by numpy alone too, and damage is named."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dragoman.data.manifest import MANIFEST_NAME
from dragoman.data.shards import ArrayWriter, PairShards, ShardWriter, id_type
from dragoman.errors import DataError
from dragoman.text.subwords import Subwords

EOS = Subwords.EOS_ID
PAIRS = [([4, 5, 6], [7]), ([8], [9, 10]), ([], [11, 12, 13, 14]), ([99], [98])]
Make = Callable[..., PairShards]


def test_pairs_come_back_with_eos_and_without_bos(make_shards: Make) -> None:
    shards = make_shards(PAIRS)
    assert len(shards) == 4
    for k, (source, target) in enumerate(PAIRS):
        assert shards.source(k).tolist() == [*source, EOS]
        assert shards.target(k).tolist() == [*target, EOS]


def test_lengths_count_eos_and_are_int32(make_shards: Make) -> None:
    shards = make_shards(PAIRS)
    assert shards.source_lengths.tolist() == [4, 2, 1, 2]
    assert shards.target_lengths.tolist() == [2, 3, 5, 2]
    assert shards.source_lengths.dtype == shards.target_lengths.dtype == np.int32


def test_negative_index_counts_from_the_end_and_outside_is_refused(make_shards: Make) -> None:
    shards = make_shards(PAIRS)
    assert shards.target(-1).tolist() == [98, EOS]
    for k in (4, -5):
        with pytest.raises(IndexError, match=f"pair {k} of 4"):
            shards.source(k)


def test_files_are_plain_npy_that_numpy_maps(make_shards: Make) -> None:
    shards = make_shards(PAIRS)
    ids = np.load(shards.directory / "train.source.ids.npy", mmap_mode="r", allow_pickle=False)
    offsets = np.load(shards.directory / "train.source.offsets.npy", mmap_mode="r", allow_pickle=False)
    assert isinstance(ids, np.memmap)
    assert ids.dtype == np.uint16
    assert ids.tolist() == [4, 5, 6, EOS, 8, EOS, EOS, 99, EOS]
    assert offsets.dtype == np.int64
    assert offsets.tolist() == [0, 4, 6, 7, 9]


def test_npy_files_are_of_version_1_and_aligned(make_shards: Make) -> None:
    data = (make_shards(PAIRS).directory / "train.lines.npy").read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    assert (10 + int.from_bytes(data[8:10], "little")) % 64 == 0
    assert data[127:128] == b"\n"
    assert len(data) == 128 + 4 * 8


def test_line_numbers_are_kept(make_shards: Make) -> None:
    assert make_shards(PAIRS).line_numbers.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(("size", "dtype"), [(8_000, "uint16"), (65_536, "uint16"), (65_537, "int32")])
def test_ids_take_the_smallest_type_that_holds_the_vocabulary(size: int, dtype: str) -> None:
    assert id_type(size) == dtype


def test_ids_over_16_bits_survive(make_shards: Make) -> None:
    shards = make_shards([([70_000], [65_536, 3])], vocabulary_size=70_001)
    assert shards.source(0).tolist() == [70_000, EOS]
    assert shards.target(0).tolist() == [65_536, 3, EOS]


def test_the_largest_id_of_16_bits_survives(make_shards: Make) -> None:
    assert make_shards([([65_535], [0])], vocabulary_size=65_536).source(0).tolist() == [65_535, EOS]


@pytest.mark.parametrize("bad", [-1, 100, 65_540])
def test_an_id_outside_the_vocabulary_is_never_written(tmp_path: Path, bad: int) -> None:
    writer = ShardWriter(tmp_path, "train", source_vocabulary_size=100, target_vocabulary_size=100)
    with pytest.raises(AssertionError, match="outside the vocabulary"):
        writer.append([[bad]], [[4]], [1])


def test_appending_in_pieces_or_at_once_gives_the_same_bytes(tmp_path: Path, make_shards: Make) -> None:
    one_by_one = make_shards(PAIRS)
    sources, targets = [list(s) for s, _ in PAIRS], [list(t) for _, t in PAIRS]
    with ShardWriter(tmp_path, "train", source_vocabulary_size=100, target_vocabulary_size=100) as writer:
        writer.append(sources, targets, [1, 2, 3, 4])
    for path in tmp_path.glob("*.npy"):
        assert path.read_bytes() == (one_by_one.directory / path.name).read_bytes()


def test_an_empty_array_is_valid(tmp_path: Path) -> None:
    writer = ArrayWriter(tmp_path / "a.npy", np.dtype(np.int32))
    writer.close()
    writer.close()
    assert np.load(tmp_path / "a.npy", mmap_mode="r").shape == (0,)


def test_pickled_shards_are_small_and_open_again(make_shards: Make) -> None:
    shards = make_shards([([4] * 500, [5] * 500)] * 20)
    assert len(shards.source_lengths) == 20  # cached: must not travel
    data = pickle.dumps(shards)
    again = pickle.loads(data)
    assert len(data) < 500
    assert again.source(3).tolist() == shards.source(3).tolist()


def test_moved_directories_open(make_shards: Make, tmp_path: Path) -> None:
    shards = make_shards(PAIRS)
    shutil.move(shards.directory, tmp_path / "elsewhere")
    moved = PairShards.open(tmp_path / "elsewhere", "train")
    moved.verify()
    assert len(moved) == len(PAIRS)


def test_whole_shards_verify(make_shards: Make) -> None:
    shards = make_shards(PAIRS)
    shards.verify()
    assert len(shards) == len(PAIRS)


@pytest.mark.parametrize(
    "name",
    [
        "train.source.ids.npy",
        "train.source.offsets.npy",
        "train.target.ids.npy",
        "train.target.offsets.npy",
        "train.lines.npy",
    ],
)
def test_a_short_or_missing_file_is_refused_by_name_on_opening(make_shards: Make, name: str) -> None:
    directory = make_shards(PAIRS).directory
    path = directory / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=name.replace(".", r"\.")) as caught:
        PairShards.open(directory, "train")
    assert caught.value.where == str(path)
    path.unlink()
    with pytest.raises(DataError, match="missing"):
        PairShards.open(directory, "train")


@pytest.mark.parametrize("position", [0, 60, 128, -1])
def test_one_changed_byte_is_found_and_named(make_shards: Make, position: int) -> None:
    shards = make_shards(PAIRS)
    path = shards.directory / "train.target.ids.npy"
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"train\.target\.ids\.npy"):
        PairShards.open(shards.directory, "train").verify()


def test_a_header_that_disagrees_with_the_manifest_is_refused(make_shards: Make) -> None:
    shards = make_shards(PAIRS)
    path = shards.directory / "train.target.ids.npy"
    path.write_bytes(path.read_bytes().replace(b"<u2", b"<i2"))
    with pytest.raises(DataError, match="header"):
        PairShards.open(shards.directory, "train")


def test_offsets_that_do_not_span_the_ids_are_refused(make_shards: Make) -> None:
    shards = make_shards(PAIRS)
    path = shards.directory / "train.source.offsets.npy"
    data = bytearray(path.read_bytes())
    data[-8] += 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="do not span"):
        PairShards.open(shards.directory, "train")


def test_a_split_that_is_not_there_is_refused(make_shards: Make) -> None:
    with pytest.raises(DataError, match="no 'dev' split"):
        PairShards.open(make_shards(PAIRS).directory, "dev")


def test_a_manifest_without_a_file_is_refused(make_shards: Make) -> None:
    directory = make_shards(PAIRS).directory
    path = directory / MANIFEST_NAME
    path.write_text(path.read_text().replace("train.lines.npy", "other.lines.npy"))
    with pytest.raises(DataError, match=r"no record of train\.lines\.npy"):
        PairShards.open(directory, "train")


_WRITE_MANY = """
import resource, sys
from pathlib import Path
from dragoman.data.shards import ShardWriter
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
writer = ShardWriter(Path(sys.argv[1]), "train", source_vocabulary_size=8000, target_vocabulary_size=8000)
for start in range(0, 400_000, 1000):
    writer.append([[5] * 20] * 1000, [[6] * 20] * 1000, range(start, start + 1000))
writer.close()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux only")
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _WRITE_MANY, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert (tmp_path / "train.source.ids.npy").stat().st_size == 128 + 400_000 * 21 * 2
    assert int(run.stdout) < 20_000, "over 20 MB for 400,000 pairs"
