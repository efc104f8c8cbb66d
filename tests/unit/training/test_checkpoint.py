"""Checkpoints on disk: what is kept, what is pointed to, what is passed over."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from tiny_runs import random_weights, tiny_facts

from dragoman import bundle as bundle_module
from dragoman.bundle import write_bundle
from dragoman.errors import CheckpointError, DataError
from dragoman.model.transformer import Transformer
from dragoman.training import checkpoint as checkpoint_module
from dragoman.training.checkpoint import (
    Place,
    checkpoint_names,
    newest_checkpoint,
    open_checkpoint,
    read_pointer,
    remove_unfinished,
    save_checkpoint,
)
from dragoman.training.optimizer import FlatAdam


@pytest.fixture(scope="module")
def facts(corpus):
    return tiny_facts(corpus)


@pytest.fixture(scope="module")
def optimizer(facts):
    flat = FlatAdam(Transformer(facts.config), torch.float32, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    generator = torch.Generator().manual_seed(1)
    for moment in flat.moments().values():
        moment.uniform_(generator=generator)
    return flat


def place_at(step: int, *, best_step: int | None = None) -> Place:
    best_loss = None if best_step is None else 1 / 3
    return Place(
        step=step,
        epoch=1,
        batch=step % 7,
        plan_digest="d",
        best_loss=best_loss,
        best_step=best_step,
        seconds=0.1,
    )


def save(folder: Path, facts, optimizer, step: int, *, keep: int = 2, best_step: int | None = None) -> str:
    return save_checkpoint(folder, facts, optimizer, place_at(step, best_step=best_step), keep=keep)


def damage(directory: Path, name: str = "model.safetensors") -> None:
    path = directory / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_weights_moments_and_place_come_back(tmp_path, facts, optimizer):
    """I16, to the bit."""
    name = save(tmp_path, facts, optimizer, 12, best_step=12)
    assert name == "step-00000012"
    opened = open_checkpoint(tmp_path / name)
    assert opened.name == name
    assert opened.place == place_at(12, best_step=12)
    assert opened.place.best_loss == 1 / 3
    other = FlatAdam(Transformer(facts.config, seed=5), torch.float32, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    opened.load_into(other)
    for key, value in (optimizer.weights() | optimizer.moments()).items():
        assert torch.equal(value, (other.weights() | other.moments())[key]), key
    assert float(other._step) == 12.0


def test_saving_what_was_loaded_gives_the_same_files(tmp_path, facts, optimizer):
    save(tmp_path / "one", facts, optimizer, 12)
    opened = open_checkpoint(tmp_path / "one" / "step-00000012")
    other = FlatAdam(Transformer(facts.config, seed=5), torch.float32, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    opened.load_into(other)
    save_checkpoint(tmp_path / "two", opened.bundle.facts, other, opened.place, keep=1)
    for path in (tmp_path / "one" / "step-00000012").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / "step-00000012" / path.name).read_bytes(), path.name


def test_the_newest_are_kept_and_the_best(tmp_path, facts, optimizer):
    best = None
    for step in range(1, 7):
        best = step if step in (1, 2) else best
        save(tmp_path, facts, optimizer, step, best_step=best)
        names = checkpoint_names(tmp_path)
        expected = {max(1, step - 1), step} | {best}
        assert names == [f"step-{k:08d}" for k in sorted(expected)]
        assert read_pointer(tmp_path / "latest") == f"step-{step:08d}"
        assert read_pointer(tmp_path / "best") == f"step-{best:08d}"
    assert {path.name for path in tmp_path.iterdir()} == {*names, "latest", "best"}


def test_without_a_best_there_is_no_pointer_to_it(tmp_path, facts, optimizer):
    save(tmp_path, facts, optimizer, 1)
    assert read_pointer(tmp_path / "best") is None


def test_names_are_ordered_by_number(tmp_path):
    for name in (
        "step-00000009",
        "step-100000000",
        "step-00000010",
        "step-x",
        ".step-00000011.partial-ab",
        "latest",
    ):
        (tmp_path / name).mkdir()
    assert checkpoint_names(tmp_path) == ["step-00000009", "step-00000010", "step-100000000"]
    assert checkpoint_names(tmp_path / "absent") == []


def test_the_newest_whole_one_is_used_and_that_is_said(tmp_path, facts, optimizer):
    """B31."""
    for step in (1, 2, 3, 4):
        save(tmp_path, facts, optimizer, step, keep=9)
    damage(tmp_path / "step-00000004", "optimizer.safetensors")
    (tmp_path / "step-00000003" / "manifest.json").unlink()
    said: list[str] = []
    assert newest_checkpoint(tmp_path, said.append).place.step == 2
    assert [text.split(" is passed over")[0] for text in said] == [
        "checkpoint step-00000004",
        "checkpoint step-00000003",
    ]
    assert "optimizer.safetensors" in said[0]


def test_a_checkpoint_of_another_version_is_passed_over(tmp_path, facts, optimizer, monkeypatch):
    save(tmp_path, facts, optimizer, 1)
    with monkeypatch.context() as patch:
        patch.setattr(type(facts.recipe), "to_toml", lambda _self: "name = 'x'\nlater = 1\n")
        save(tmp_path, facts, optimizer, 2)
    said: list[str] = []
    assert newest_checkpoint(tmp_path, said.append).place.step == 1
    assert "another version" in said[0]


def test_without_a_whole_one_there_is_a_reason(tmp_path, facts, optimizer):
    with pytest.raises(CheckpointError, match="no checkpoint in"):
        newest_checkpoint(tmp_path, lambda _text: None)
    save(tmp_path, facts, optimizer, 1)
    damage(tmp_path / "step-00000001")
    with pytest.raises(CheckpointError, match="no whole checkpoint in"):
        newest_checkpoint(tmp_path, lambda _text: None)


def test_a_damaged_later_one_never_costs_a_whole_one(tmp_path, facts, optimizer):
    """B33: after going back from a damaged step 20, with one to keep, step 16 is the newest."""
    save(tmp_path, facts, optimizer, 15, keep=1, best_step=15)
    save(tmp_path, facts, optimizer, 20, keep=1, best_step=20)
    assert checkpoint_names(tmp_path) == ["step-00000020"]
    save(tmp_path, facts, optimizer, 15, keep=2, best_step=15)
    assert checkpoint_names(tmp_path) == ["step-00000015"], "later ones belong to an abandoned future"
    save(tmp_path, facts, optimizer, 20, keep=2, best_step=20)
    damage(tmp_path / "step-00000020")
    assert newest_checkpoint(tmp_path, lambda _text: None).place.step == 15
    save(tmp_path, facts, optimizer, 16, keep=1, best_step=15)
    assert checkpoint_names(tmp_path) == ["step-00000015", "step-00000016"]
    assert read_pointer(tmp_path / "latest") == "step-00000016"
    assert read_pointer(tmp_path / "best") == "step-00000015"
    assert newest_checkpoint(tmp_path, lambda _text: None).place.step == 16


def test_a_damaged_one_is_replaced_when_its_update_is_reached_again(tmp_path, facts, optimizer):
    save(tmp_path, facts, optimizer, 1)
    save(tmp_path, facts, optimizer, 2)
    for path in (tmp_path / "step-00000002").iterdir():
        if path.name != "config.json":
            path.unlink()
    save(tmp_path, facts, optimizer, 2)
    assert newest_checkpoint(tmp_path, pytest.fail).place.step == 2


def test_a_model_is_no_checkpoint(tmp_path, facts):
    write_bundle(tmp_path / "step-00000003", facts, random_weights(facts), step=3)
    with pytest.raises(CheckpointError, match="is a model, not a checkpoint"):
        open_checkpoint(tmp_path / "step-00000003")
    shutil.copytree(tmp_path / "step-00000003", tmp_path / "step-00000004")
    (tmp_path / "step-00000004" / "training.json").write_text(place_at(4).model_dump_json())
    with pytest.raises(CheckpointError, match="is a model, not a checkpoint"):
        open_checkpoint(tmp_path / "step-00000004")


def test_a_renamed_checkpoint_is_found_out(tmp_path, facts, optimizer):
    save(tmp_path, facts, optimizer, 3)
    (tmp_path / "step-00000003").rename(tmp_path / "step-00000008")
    with pytest.raises(CheckpointError, match="of 3"):
        open_checkpoint(tmp_path / "step-00000008")


@pytest.mark.parametrize("text", ["{}", "not json", '{"step": -1}', "[]"])
def test_a_place_that_makes_no_sense_is_refused(tmp_path, facts, optimizer, monkeypatch, text):
    with monkeypatch.context() as patch:
        patch.setattr(Place, "model_dump_json", lambda _self, **_options: text)
        save(tmp_path, facts, optimizer, 3)
    with pytest.raises(CheckpointError, match="place in training"):
        open_checkpoint(tmp_path / "step-00000003")


def test_moments_that_are_not_finite_are_refused_before_anything_is_set(tmp_path, facts, optimizer):
    first = next(iter(optimizer.moments().values()))
    kept = first.clone()
    first.view(-1)[0] = float("nan")
    try:
        save(tmp_path, facts, optimizer, 3)
    finally:
        first.copy_(kept)
    other = FlatAdam(Transformer(facts.config, seed=5), torch.float32, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    before = {name: value.clone() for name, value in other.weights().items()}
    with pytest.raises(CheckpointError, match="not finite"):
        open_checkpoint(tmp_path / "step-00000003").load_into(other)
    assert all(torch.equal(value, before[name]) for name, value in other.weights().items())


def test_a_write_that_fails_leaves_the_old_ones_and_the_pointers(tmp_path, facts, optimizer, monkeypatch):
    """B30, B35: nothing moves before the new one is durable."""
    save(tmp_path, facts, optimizer, 1, keep=1)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    for place in ((checkpoint_module, "write_tensors"), (bundle_module, "sync_file")):
        with monkeypatch.context() as patch:
            patch.setattr(*place, full)
            with pytest.raises(DataError, match="No space left"):
                save(tmp_path, facts, optimizer, 2, keep=1)
        assert {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert newest_checkpoint(tmp_path, pytest.fail).place.step == 1


def test_the_order_of_a_save(tmp_path, facts, optimizer, monkeypatch):
    """Whole and durable, then the pointers, then the old ones go."""
    save(tmp_path, facts, optimizer, 1, keep=1)
    happened: list[str] = []
    real_write, real_remove = checkpoint_module.write_durably, checkpoint_module.remove_directory

    def write(path: Path, text: str) -> None:
        open_checkpoint(tmp_path / text.strip())
        happened.append(path.name)
        real_write(path, text)

    def remove(path: Path) -> None:
        assert read_pointer(tmp_path / "latest") == "step-00000002"
        happened.append(f"remove {path.name}")
        real_remove(path)

    monkeypatch.setattr(checkpoint_module, "write_durably", write)
    monkeypatch.setattr(checkpoint_module, "remove_directory", remove)
    save(tmp_path, facts, optimizer, 2, keep=1, best_step=2)
    assert happened == ["latest", "best", "remove step-00000001"]


def test_a_kill_while_the_old_ones_go_leaves_whole_ones_only(tmp_path, facts, optimizer, monkeypatch):
    """I17: killed at each single file of the one that goes."""
    files = len(list((tmp_path / save(tmp_path, facts, optimizer, 1, keep=1)).iterdir()))
    real_unlink = os.unlink
    for step in range(2, files + 2):

        def unlink(path: str, *, dir_fd: int | None = None, left: list[int] = [step - 2]) -> None:  # noqa: B006
            if dir_fd is not None:  # of a file in a directory that is removed
                if left[0] == 0:
                    raise KeyboardInterrupt  # as a kill: nothing that handles an error handles it
                left[0] -= 1
            real_unlink(path, dir_fd=dir_fd)

        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", unlink)
            with pytest.raises(KeyboardInterrupt):
                save(tmp_path, facts, optimizer, step, keep=1)
        assert checkpoint_names(tmp_path) == [f"step-{step:08d}"]
        assert open_checkpoint(tmp_path / f"step-{step:08d}").place.step == step
    assert [path for path in tmp_path.iterdir() if ".old-" in path.name]
    remove_unfinished(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*checkpoint_names(tmp_path), "latest"}


def test_every_file_is_durable_before_the_checkpoint_has_its_name(tmp_path, facts, optimizer, monkeypatch):
    """B30: what is synced is known by inode, as names change."""
    save(tmp_path, facts, optimizer, 1)
    synced: set[int] = set()
    moved: list[tuple[str, set[int]]] = []
    real_sync, real_rename, real_replace = os.fsync, Path.rename, os.replace

    def sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        real_sync(descriptor)

    def rename(path: Path, target: Path) -> Path:
        moved.append((target.name, set(synced)))
        return real_rename(path, target)

    def replace(path: Path, target: Path) -> None:
        moved.append((Path(target).name, set(synced)))
        real_replace(path, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", rename)
    monkeypatch.setattr(os, "replace", replace)
    save(tmp_path, facts, optimizer, 2)
    final = tmp_path / "step-00000002"
    files = {path.stat().st_ino for path in final.iterdir()}
    by_name = dict(moved)
    assert files | {final.stat().st_ino} <= by_name["step-00000002"]
    assert {tmp_path.stat().st_ino, (tmp_path / "latest").stat().st_ino} <= by_name["latest"]


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path, facts, optimizer):
    save(tmp_path, facts, optimizer, 1)
    for name in (".step-00000002.partial-0a1b2c3d", ".step-00000002.old-0a1b2c3d"):
        shutil.copytree(tmp_path / "step-00000001", tmp_path / name)
    (tmp_path / ".latest.partial").write_text("step-0")
    (tmp_path / ".notes").write_text("mine")
    (tmp_path / "step-2.partial").mkdir()
    remove_unfinished(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"step-00000001", "latest", ".notes", "step-2.partial"}
    remove_unfinished(tmp_path / "absent")


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"../../etc\n", b"/etc\n", b"a/b\n", b"\xff\xfe\n", b"a\nb\n"]
)
def test_a_damaged_pointer_names_nothing(tmp_path, content):
    (tmp_path / "latest").write_bytes(content)
    assert read_pointer(tmp_path / "latest") is None


def test_a_checkpoint_holds_json_and_safetensors_only(tmp_path, facts, optimizer):
    """No pickle."""
    save(tmp_path, facts, optimizer, 5)
    folder = tmp_path / "step-00000005"
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "config.json",
        "manifest.json",
        "model.safetensors",
        "optimizer.safetensors",
        "recipe.toml",
        "subwords.model",
        "training.json",
    ]
    assert json.loads((folder / "training.json").read_text())["step"] == 5
    assert json.loads((folder / "manifest.json").read_text())["kind"] == "checkpoint"
