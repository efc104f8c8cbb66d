"""I17: whatever happens while a checkpoint is saved, the newest whole one loads, and none reported saved is lost.

After SQLite's tests of crashes: a kill at a random moment, an error at the n-th call of the system for every n, and the
loss of all that was not yet synced.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import Killed, sha256_of, tiny_facts

from dragoman.bundle import BundleFacts
from dragoman.data import tensors as tensors_module
from dragoman.errors import DataError
from dragoman.model.transformer import Transformer
from dragoman.training.checkpoint import (
    Place,
    checkpoint_names,
    newest_checkpoint,
    remove_unfinished,
    save_checkpoint,
)
from dragoman.training.optimizer import FlatAdam

KEEP = 2
ROUNDS = 200


class Writer:
    """Saves checkpoints whose weights tell their step."""

    def __init__(self, facts: BundleFacts) -> None:
        self.facts = facts
        self.optimizer = new_optimizer(facts)
        self.start = {name: tensor.clone() for name, tensor in self._state().items()}

    def _state(self) -> dict[str, torch.Tensor]:
        return self.optimizer.weights() | self.optimizer.moments()

    def set_step(self, step: int) -> None:
        for name, tensor in self._state().items():
            tensor.copy_(self.start[name] + step)

    def digest(self, step: int) -> str:
        self.set_step(step)
        return sha256_of(self._state())

    def save(self, folder: Path, step: int) -> None:
        self.set_step(step)
        best = max(1, step - 1)
        place = Place(step=step, epoch=0, batch=step, plan_digest="d", best_loss=1.0, best_step=best)
        save_checkpoint(folder, self.facts, self.optimizer, place, keep=KEEP)


def new_optimizer(facts: BundleFacts) -> FlatAdam:
    return FlatAdam(Transformer(facts.config), torch.float32, beta_1=0.9, beta_2=0.98, epsilon=1e-9)


@pytest.fixture(scope="module")
def writer(corpus) -> Writer:
    return Writer(tiny_facts(corpus))


def loaded_step(folder: Path, writer: Writer) -> int:
    """The step of the newest whole checkpoint, after checking that all of it is of that step."""
    checkpoint = newest_checkpoint(folder, lambda _text: None)
    target = new_optimizer(writer.facts)
    checkpoint.load_into(target)
    step = checkpoint.place.step
    assert sha256_of(target.weights() | target.moments()) == writer.digest(step)
    return step


def check_recovers(folder: Path, writer: Writer, *, reported: int) -> None:
    """As the next start finds it, and it goes on from there."""
    remove_unfinished(folder)
    step = loaded_step(folder, writer)
    assert step >= reported, "a checkpoint that was reported saved is lost"
    visible = {path.name for path in folder.iterdir()}
    assert visible <= {*checkpoint_names(folder), "latest", "best"}, "something unfinished is left"
    writer.save(folder, step + 1)
    assert loaded_step(folder, writer) == step + 1


# 1. kill -9 at a random moment


def save_until_killed(writer: Writer, folder: Path, first: int, report: int) -> None:
    """In a process of its own: saves one checkpoint after another, and reports each."""
    step = first
    while True:
        writer.save(folder, step)
        os.write(report, b"%d\n" % step)
        step += 1


def killed_while_saving(writer: Writer, folder: Path, first: int, seconds: float) -> int:
    """Starts that process and kills it after so long; the last step it reported, or 0."""
    reading, report = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            save_until_killed(writer, folder, first, report)
        finally:
            os._exit(1)
    os.close(report)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the process ended by itself"
    with os.fdopen(reading, "rb") as stream:
        reported = stream.read().split()
    return int(reported[-1]) if reported else 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_kill_9_at_random_moments(writer, tmp_path):
    draw = random.Random(17)
    began, saves = time.monotonic(), 5
    for step in range(1, saves + 1):
        writer.save(tmp_path, step)
    a_few_saves = time.monotonic() - began  # some ten milliseconds each, and much more on a busy disk
    reported = saves
    for _ in range(ROUNDS):
        # Any moment of a save, or of one of the next, is hit.
        last = killed_while_saving(writer, tmp_path, reported + 1, draw.uniform(0.0, a_few_saves))
        reported = max(reported, last)
        remove_unfinished(tmp_path)
        newest = loaded_step(tmp_path, writer)
        assert newest >= reported
        reported = newest
    check_recovers(tmp_path, writer, reported=reported)
    assert reported > ROUNDS // 10, "no save was ever finished: the test tests nothing"


# 2. an error at the n-th call


class Calls:
    """Counts the calls that change the file system, and does something at the n-th."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.at, self.act, self.count, self.met = at, act, 0, ""

    def tick(self, what: str = "a write") -> None:
        self.count += 1
        if self.count == self.at:
            self.met = what
            self.act()


class _Writes(io.FileIO):
    """A file each of whose writes is a call; the one that fails writes half of its bytes first."""

    calls: Calls

    def write(self, data: Any) -> int:
        try:
            self.calls.tick()
        except BaseException:
            super().write(memoryview(data).cast("B")[: len(data) // 2])
            raise
        return super().write(data)


@contextmanager
def counted(calls: Calls, synced: dict[str, int] | None = None) -> Iterator[None]:
    """Everything that saving asks of the system goes through `calls`; `synced` gets the size of each synced file."""
    plain_open, fsync, mkdir, save_file = io.open, os.fsync, os.mkdir, tensors_module.save_file

    def open_counted(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
        if not set(mode) & set("wax+"):
            return plain_open(file, mode, *args, **options)
        calls.tick()
        raw = _Writes(file, mode.replace("b", "").replace("t", ""))
        raw.calls = calls
        buffered = io.BufferedWriter(raw)
        if "b" in mode:
            return buffered
        names = ("encoding", "errors", "newline")
        given = dict(zip(names, args[1:], strict=False)) | {n: options[n] for n in names if n in options}
        return io.TextIOWrapper(buffered, **given)

    def fsync_counted(descriptor: int) -> None:
        calls.tick()
        fsync(descriptor)
        if synced is not None:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            synced[path] = os.fstat(descriptor).st_size

    def save_counted(tensors: Any, path: Any, metadata: Any) -> None:
        try:
            calls.tick()
        except BaseException:
            save_file(tensors, path, metadata)
            os.truncate(path, os.path.getsize(path) // 2)
            raise
        save_file(tensors, path, metadata)

    def moving(function: Callable[..., None]) -> Callable[..., None]:
        def moved(*args: Any, **options: Any) -> None:
            calls.tick(f"{function.__name__} {Path(args[0]).name}")
            function(*args, **options)
            if synced is not None and function is not mkdir:  # the bytes are as durable under the new name
                old, new = (os.path.realpath(path) for path in args)
                for path in [path for path in synced if path == old or path.startswith(old + os.sep)]:
                    synced[new + path[len(old) :]] = synced.pop(path)

        return moved

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", open_counted)
        patch.setattr(builtins, "open", open_counted)
        patch.setattr(os, "fsync", fsync_counted)
        patch.setattr(tensors_module, "save_file", save_counted)
        for name in ("rename", "replace", "mkdir"):
            patch.setattr(os, name, moving(getattr(os, name)))
        yield


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_an_error_at_the_nth_call_for_every_n(writer, tmp_path, number):
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    before = tmp_path / "before"
    for step in (1, 2, 3):
        writer.save(before, step)
    n, borne = 0, []
    while True:
        n += 1
        folder = tmp_path / "run"
        shutil.copytree(before, folder)
        calls = Calls(n, fail)
        failed = False
        with counted(calls):
            try:
                writer.save(folder, 4)
            except DataError as error:
                failed = True
                assert os.strerror(number) in str(error)
                assert "partial" not in str(error)
        check_recovers(folder, writer, reported=3 if failed else 4)
        shutil.rmtree(folder)
        if calls.count < n:
            break
        if not failed:
            borne.append(calls.met)
    assert n > 30, "the calls are not seen"
    # Only making a directory that is there, and an old checkpoint's removal, may fail unnoticed.
    assert borne == ["mkdir run", "rename step-00000002"]


# 3. the loss of what was not synced


def tear(folder: Path, synced: dict[str, int], draw: random.Random) -> None:
    """What a power cut may do: each file is as long as its last sync, or anything between that and its length."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            size, kept = path.stat().st_size, synced.get(str(path.resolve()), 0)
            if kept < size:
                os.truncate(path, draw.randint(kept, size - 1))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc to tell what was synced")
def test_power_lost_at_any_call(writer, tmp_path):
    draw = random.Random(3)

    def stop() -> None:
        raise Killed

    n, done = 0, False
    while not done:
        n += 1
        folder = tmp_path / f"{n}"
        synced: dict[str, int] = {}
        reported = 0
        with counted(Calls(10**9, stop), synced):
            for step in (1, 2):
                writer.save(folder, step)
                reported = step
        with counted(Calls(n, stop), synced), suppress(Killed), kept_unfinished():
            writer.save(folder, 3)
            reported, done = 3, True
        tear(folder, synced, draw)
        check_recovers(folder, writer, reported=reported)
        shutil.rmtree(folder)
    assert n > 30


@contextmanager
def kept_unfinished() -> Iterator[None]:
    """Where power is lost nobody cleans up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_args, **_options: None)
        yield


def test_losing_what_was_not_synced_is_noticed(writer, tmp_path):
    """The test of the test: with nothing synced, a torn checkpoint is passed over."""
    writer.save(tmp_path, 1)
    shutil.copytree(tmp_path / "step-00000001", tmp_path / "keep")
    tear(tmp_path / "step-00000001", {}, random.Random(1))
    with pytest.raises(Exception, match="no whole checkpoint"):
        newest_checkpoint(tmp_path, lambda _text: None)
