"""I18: any damage to any file of a checkpoint but its card is found before a weight or a moment is set."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_runs import sha256_of, tiny_facts

from dragoman.bundle import read_manifest
from dragoman.errors import CheckpointError
from dragoman.model.transformer import Transformer
from dragoman.training.checkpoint import Place, open_checkpoint, save_checkpoint
from dragoman.training.optimizer import FlatAdam

FILES = [
    "config.json",
    "manifest.json",
    "model.safetensors",
    "optimizer.safetensors",
    "recipe.toml",
    "subwords.model",
    "training.json",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, corpus) -> Path:
    """Two checkpoints of one run; nothing in the first is changed for longer than a check."""
    place = tmp_path_factory.mktemp("run")
    model = Transformer(tiny_facts(corpus).config)
    optimizer = FlatAdam(model, torch.float32, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    for step in (1, 2):
        for tensor in (optimizer.weights() | optimizer.moments()).values():
            tensor.add_(0.25 * step)
        where = Place(step=step, epoch=0, batch=step, plan_digest="d", best_loss=2.5, best_step=step)
        save_checkpoint(place, tiny_facts(corpus), optimizer, where, keep=9)
    return place


@pytest.fixture(scope="module")
def target(corpus) -> FlatAdam:
    """What the checkpoint would be loaded into."""
    model = Transformer(tiny_facts(corpus).config, seed=3)
    return FlatAdam(model, torch.float32, beta_1=0.9, beta_2=0.98, epsilon=1e-9)


def assert_found(checkpoint: Path, target: FlatAdam, *, name: str) -> None:
    before = sha256_of(target.weights() | target.moments())
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(checkpoint).load_into(target)
    assert sha256_of(target.weights() | target.moments()) == before
    assert name.partition(".")[0] in str(caught.value), "the file is named"


def check_damage(checkpoint: Path, name: str, change: Callable[[bytes], bytes], target: FlatAdam) -> None:
    path = checkpoint / name
    good = path.read_bytes()
    bad = change(good)
    if bad == good:
        return
    path.write_bytes(bad)
    try:
        assert_found(checkpoint, target, name=name)
    finally:
        path.write_bytes(good)


def test_undamaged_it_loads(folder, target):
    assert sorted(path.name for path in (folder / "step-00000001").iterdir()) == sorted([*FILES, "README.md"])
    before = sha256_of(target.weights())
    open_checkpoint(folder / "step-00000001").load_into(target)
    assert sha256_of(target.weights()) != before


@settings(max_examples=120)
@given(name=st.sampled_from(FILES), place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_one_byte(folder, target, name, place, change):
    def flip(good: bytes) -> bytes:
        at = int(place * len(good))
        return good[:at] + bytes([good[at] ^ change]) + good[at + 1 :]

    check_damage(folder / "step-00000001", name, flip, target)


def test_every_byte_of_the_manifest(folder, monkeypatch):
    """It is read before anything else and vouches for the rest."""
    checkpoint = folder / "step-00000001"
    good = (checkpoint / "manifest.json").read_bytes()
    for at in range(len(good)):
        for change in (1, 0x20):
            bad = good[:at] + bytes([good[at] ^ change]) + good[at + 1 :]
            monkeypatch.setattr(Path, "read_bytes", lambda _path, text=bad: text)
            with pytest.raises(CheckpointError):
                read_manifest(checkpoint)


@settings(max_examples=40)
@given(name=st.sampled_from(FILES), place=st.floats(0, 1, exclude_max=True))
def test_cut(folder, target, name, place):
    check_damage(folder / "step-00000001", name, lambda good: good[: int(place * len(good))], target)


@settings(max_examples=40)
@given(name=st.sampled_from(FILES), more=st.binary(min_size=1, max_size=9), front=st.booleans())
def test_grown(folder, target, name, more, front):
    check_damage(folder / "step-00000001", name, lambda good: more + good if front else good + more, target)


@pytest.mark.parametrize("name", FILES)
def test_missing_zeroed_and_swapped(folder, target, tmp_path, name):
    checkpoint = tmp_path / "step-00000001"
    shutil.copytree(folder / "step-00000001", checkpoint)
    for change in (
        lambda good: b"",
        lambda good: good[:-1],
        lambda good: good[1:],
        lambda good: bytes(len(good)),
    ):
        check_damage(checkpoint, name, change, target)
    other = (folder / "step-00000002" / name).read_bytes()
    same = other == (checkpoint / name).read_bytes()
    assert same == (name in ("config.json", "recipe.toml", "subwords.model"))
    (checkpoint / name).write_bytes(other)
    if not same:
        with pytest.raises(CheckpointError):
            open_checkpoint(checkpoint).load_into(target)
    (checkpoint / name).unlink()
    assert_found(checkpoint, target, name=name)


def test_two_files_of_a_bundle_exchanged(folder, target, tmp_path):
    checkpoint = tmp_path / "step-00000001"
    shutil.copytree(folder / "step-00000001", checkpoint)
    one, other = checkpoint / "model.safetensors", checkpoint / "optimizer.safetensors"
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    assert_found(checkpoint, target, name="model.safetensors")
