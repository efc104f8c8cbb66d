"""The log: one JSON object a line, every n-th update, nothing that is not JSON."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dragoman.errors import MissingDependency
from dragoman.training.events import Ended, JsonLines, Said, Saved, Started, Stepped, TensorBoard, Validated


def stepped(step: int, loss: float = 1.5) -> Stepped:
    return Stepped(step, 0, loss, 1.25, 0.001, 2.0, 10, 11, 3.5, 99.0)


def validated(loss: float = 2.0, bleu: float | None = None) -> Validated:
    return Validated(8, loss, 7.5, bleu, best=True, seconds=1.0)


def read(path: Path) -> list[dict]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_bytes().decode().split("\n")[:-1]]


def test_every_event_is_one_line_with_its_name_and_fields(tmp_path):
    log = JsonLines(tmp_path / "log", every_steps=1)
    events = [
        Started(0, 10, None, 5, 1000, "banner"),
        stepped(1),
        validated(bleu=3.25),
        Saved(1, "step-00000001"),
        Said("a line\nend \u2028 and ü"),
        Ended(1, "steps", 9.0),
    ]
    for event in events:
        log(event)
    log.close()
    written = read(tmp_path / "log")
    assert [entry["event"] for entry in written] == [
        "started",
        "stepped",
        "validated",
        "saved",
        "said",
        "ended",
    ]
    assert written[0] == {
        "event": "started",
        "step": 0,
        "max_steps": 10,
        "max_minutes": None,
        "batches_an_epoch": 5,
        "parameters": 1000,
        "standing": "banner",
    }
    assert written[1]["loss"] == 1.5
    assert written[2]["bleu"] == 3.25
    assert written[4]["text"] == "a line\nend \u2028 and ü"


def test_updates_are_thinned_and_nothing_else_is(tmp_path):
    log = JsonLines(tmp_path / "log", every_steps=3)
    for step in range(1, 8):
        log(stepped(step))
        log(Saved(step, "x"))
    log.close()
    written = read(tmp_path / "log")
    assert [entry["step"] for entry in written if entry["event"] == "stepped"] == [3, 6]
    assert [entry["step"] for entry in written if entry["event"] == "saved"] == list(range(1, 8))


def test_a_line_is_there_at_once_and_a_second_log_goes_on_after_it(tmp_path):
    path = tmp_path / "log"
    first = JsonLines(path, every_steps=1)
    first(stepped(1))
    assert len(read(path)) == 1
    first.close()
    second = JsonLines(path, every_steps=1)
    second(stepped(2))
    second.close()
    assert [entry["step"] for entry in read(path)] == [1, 2]
    anew = JsonLines(path, every_steps=1, anew=True)
    anew(stepped(3))
    anew.close()
    assert [entry["step"] for entry in read(path)] == [3]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_say_is_null(tmp_path, number):
    log = JsonLines(tmp_path / "log", every_steps=1)
    log(stepped(1, loss=number))
    log(validated(loss=number, bleu=number))
    log.close()
    one, two = read(tmp_path / "log")
    assert one["loss"] is None
    assert (two["loss"], two["bleu"], two["perplexity"]) == (None, None, 7.5)


def test_losses_are_written_to_their_last_bit(tmp_path):
    log = JsonLines(tmp_path / "log", every_steps=1)
    loss = 0.1 + 0.2
    log(stepped(1, loss=loss))
    log.close()
    assert read(tmp_path / "log")[0]["loss"] == loss


def test_tensorboard_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingDependency, match=r"dragoman\[tensorboard\]"):
        TensorBoard(tmp_path, every_steps=1)


def test_tensorboard_gets_scalars(tmp_path, monkeypatch):
    written: list[tuple[str, float, int]] = []

    class SummaryWriter:
        def __init__(self, directory: str) -> None:
            assert directory == str(tmp_path)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, value, step))

        def close(self) -> None:
            written.append(("closed", 0.0, 0))

    stub = ModuleType("torch.utils.tensorboard")
    stub.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", stub)
    board = TensorBoard(tmp_path, every_steps=2)
    for event in (stepped(1), Said("x"), Saved(2, "x"), Ended(2, "steps", 1.0)):
        board(event)
    assert written == []
    board(stepped(2))
    assert ("train/loss", 1.5, 2) in written
    assert ("train/learning_rate", 0.001, 2) in written
    assert ("train/gradient_norm", 2.0, 2) in written
    board(validated())
    assert ("dev/loss", 2.0, 8) in written
    assert ("dev/perplexity", 7.5, 8) in written
    assert not any(name == "dev/bleu" for name, _, _ in written)
    board(validated(bleu=12.0))
    assert ("dev/bleu", 12.0, 8) in written
    board.close()
    assert written[-1][0] == "closed"
