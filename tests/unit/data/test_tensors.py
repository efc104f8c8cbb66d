"""Safetensors files: read only where they are exactly what is expected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dragoman.data.tensors import read_metadata, read_tensors, write_tensors
from dragoman.errors import CheckpointError

TENSORS = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([1.5], dtype=torch.bfloat16)}
SHAPES = {"a": (2, 3), "b": (1,)}


@pytest.fixture
def path(tmp_path) -> Path:
    write_tensors(tmp_path / "t", TENSORS, {"key": "value"})
    return tmp_path / "t"


def with_header(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def test_round_trip(path):
    read = read_tensors(path, expected=SHAPES)
    assert read.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor)
    assert read_metadata(path) == {"key": "value"}


def test_whoever_may_read_the_files_beside_it_may_read_it(path):
    beside = path.with_name("beside")
    beside.write_text("", encoding="utf-8")
    assert path.stat().st_mode == beside.stat().st_mode


def test_views_are_written_as_what_they_show(tmp_path):
    flat = torch.arange(12.0)
    write_tensors(tmp_path / "v", {"x": flat[2:8].view(2, 3), "y": flat[::5], "z": flat.view(3, 4).T})
    read = read_tensors(tmp_path / "v", expected={"x": (2, 3), "y": (3,), "z": (4, 3)})
    assert read["x"].tolist() == [[2, 3, 4], [5, 6, 7]]
    assert read["y"].tolist() == [0, 5, 10]
    assert torch.equal(read["z"], flat.view(3, 4).T)
    assert read_metadata(tmp_path / "v") == {}


@pytest.mark.parametrize(
    "expected", [{"a": (2, 3)}, {**SHAPES, "c": (1,)}, {"a": (3, 2), "b": (1,)}, {"a": (6,), "b": (1,)}, {}]
)
def test_other_names_and_shapes_are_refused(path, expected):
    with pytest.raises(CheckpointError, match=r"tensor [abc]: the file has"):
        read_tensors(path, expected=expected)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8])
def test_what_is_no_fraction_is_refused(tmp_path, dtype):
    write_tensors(tmp_path / "t", {"a": torch.ones(2, dtype=dtype)})
    with pytest.raises(CheckpointError, match="not fractions"):
        read_tensors(tmp_path / "t", expected={"a": (2,)})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused(tmp_path, value):
    write_tensors(tmp_path / "t", {"a": torch.tensor([1.0, value])})
    with pytest.raises(CheckpointError, match="tensor a holds numbers that are not finite"):
        read_tensors(tmp_path / "t", expected={"a": (2,)})


def test_a_name_that_occurs_twice_is_refused(tmp_path):
    """The library itself takes the last one."""
    entry = '"a":{"dtype":"%s","shape":[%d],"data_offsets":[0,4]}'
    header = ("{" + ",".join([entry % ("BF16", 2), entry % ("F32", 1)]) + "}").encode()
    (tmp_path / "t").write_bytes(with_header(header, bytes(4)))
    assert load_file(tmp_path / "t")["a"].shape == (1,)
    with pytest.raises(CheckpointError, match="occurs twice"):
        read_tensors(tmp_path / "t", expected={"a": (1,)})


def test_damage_is_an_error_of_ours(path):
    good = path.read_bytes()
    header = json.loads(good[8 : 8 + int.from_bytes(good[:8], "little")])
    assert set(header) == {"__metadata__", "a", "b"}
    damaged = [
        b"",
        good[:7],
        good[:20],
        good[:-1],
        good + b"\0",
        (2**63).to_bytes(8, "little") + good[8:],
        (10**8 + 1).to_bytes(8, "little") + good[8:],
        with_header(b"{}", b"x"),
        with_header(b"[" * 100_000, b""),
        with_header(b"\xff" * 10, b""),
        with_header(b'{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,9999]}}', bytes(24)),
    ]
    for data in damaged:
        path.write_bytes(data)
        with pytest.raises(CheckpointError):
            read_tensors(path, expected=SHAPES)
    with pytest.raises(CheckpointError):
        read_tensors(path.with_name("absent"), expected=SHAPES)
    path.write_bytes(b"")
    with pytest.raises(CheckpointError):
        read_metadata(path)


def test_what_cannot_be_written_is_a_system_error(tmp_path):
    """So that writing a directory whole can say so in its own words."""
    with pytest.raises(OSError, match=r"absent"):
        write_tensors(tmp_path / "absent" / "t", TENSORS)
