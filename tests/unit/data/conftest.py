"""Small shards with known ids, made without any text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dragoman.data.manifest import Manifest, Split, file_records, write_manifest
from dragoman.data.shards import PairShards, ShardWriter

Pairs = Sequence[tuple[Sequence[int], Sequence[int]]]


def write_shards(
    directory: Path, pairs: Pairs, *, split: Split = "train", vocabulary_size: int = 100
) -> PairShards:
    """A prepared directory with one split that holds `pairs` (ids without EOS), and no vocabulary."""
    directory.mkdir(parents=True)
    with ShardWriter(
        directory, split, source_vocabulary_size=vocabulary_size, target_vocabulary_size=vocabulary_size
    ) as writer:
        for number, (source, target) in enumerate(pairs, start=1):
            writer.append([source], [target], [number])
    manifest = Manifest(
        source_language=None,
        target_language=None,
        splits={split: writer.close()},
        vocabularies={},
        left_out=(),
        notes=(),
        origin=None,
        files=file_records(directory),
    )
    write_manifest(directory, manifest)
    return PairShards.open(directory, split)


@pytest.fixture
def make_shards(tmp_path: Path) -> Callable[..., PairShards]:
    """`write_shards` into a fresh directory at each call."""
    made = 0

    def make(pairs: Pairs, **options: object) -> PairShards:
        nonlocal made
        made += 1
        return write_shards(tmp_path / f"shards-{made}", pairs, **options)  # type: ignore[arg-type]

    return make
