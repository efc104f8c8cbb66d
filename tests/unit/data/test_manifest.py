"""Manifests: read back as written; anything else is refused with the field named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.data.manifest import MANIFEST_NAME, file_record, read_manifest
from dragoman.data.shards import PairShards
from dragoman.errors import DataError

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def directory(make_shards: Callable[..., PairShards]) -> Path:
    return make_shards([([4], [5, 6])]).directory


def test_a_manifest_reads_back(directory: Path) -> None:
    manifest = read_manifest(directory)
    assert manifest.splits["train"].pairs == 1
    assert (manifest.splits["train"].source_tokens, manifest.splits["train"].target_tokens) == (2, 3)
    assert [record.name for record in manifest.files] == sorted(record.name for record in manifest.files)


def test_a_file_record_is_size_and_sha256(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc" * 1_000_000)
    record = file_record(tmp_path / "f")
    assert (record.name, record.bytes) == ("f", 3_000_000)
    assert record.sha256 == hashlib.sha256(b"abc" * 1_000_000).hexdigest()


def test_no_manifest_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a prepared corpus") as caught:
        read_manifest(tmp_path)
    assert "dragoman prepare" in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"format": "other"}'])
def test_what_is_no_manifest_is_refused(directory: Path, text: bytes) -> None:
    (directory / MANIFEST_NAME).write_bytes(text)
    with pytest.raises(DataError, match="damaged or of another version"):
        read_manifest(directory)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda m: m.update(version=2), "version"),
        (lambda m: m.update(format="else"), "format"),
        (lambda m: m.update(extra=1), "extra"),
        (lambda m: m["splits"]["train"].update(pairs=-1), "splits.train.pairs"),
        (lambda m: m["splits"]["train"].update(pairs="1"), "splits.train.pairs"),
        (lambda m: m["splits"]["train"].update(source_dtype="float64"), "splits.train.source_dtype"),
        (lambda m: m["files"][0].update(name="../secret"), "files.0.name"),
        (lambda m: m["files"][0].update(name="/etc/passwd"), "files.0.name"),
        (lambda m: m["files"][0].update(sha256="0" * 63), "files.0.sha256"),
        (lambda m: m.pop("files"), "files"),
    ],
)
def test_a_changed_field_is_named(directory: Path, change: Change, field: str) -> None:
    path = directory / MANIFEST_NAME
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(DataError) as caught:
        read_manifest(directory)
    assert field in caught.value.what
