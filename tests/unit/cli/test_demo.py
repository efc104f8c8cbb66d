"""`dragoman demo` from the command line; what it does is tested with `dragoman.demo`."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import dragoman, refused

from dragoman.demo import DemoStopped
from dragoman.errors import ConfigError


class Result:
    def as_record(self):
        return {"data": "grammar", "text": "für"}

    def lines(self):
        return ["one line", "für später"]


@pytest.fixture
def asked(monkeypatch):
    """What `run_demo` is called with, in place of minutes of training."""
    calls = []

    def run_demo(out, **options):
        calls.append({"out": out, **options})
        options["say"]("data: something")
        return Result()

    monkeypatch.setattr("dragoman.demo.run_demo", run_demo)
    return calls


def test_options_reach_the_demonstration(asked, tmp_path):
    result = dragoman("demo")
    assert (result.code, result.lines, result.err) == (0, ["one line", "für später"], "data: something\n")
    assert asked[0]["out"] == Path("demo")
    given = {name: asked[0][name] for name in ("download", "grammar", "max_minutes", "seed", "device")}
    assert given == {"download": False, "grammar": False, "max_minutes": None, "seed": 1, "device": "cpu"}
    options = ("--download", "--grammar", "--max-minutes", 2, "--seed", 5, "--device", "cuda", "--threads", 1)
    dragoman("demo", "--out", tmp_path / "d", *options)
    assert asked[1]["out"] == tmp_path / "d"
    given = {name: asked[1][name] for name in ("download", "grammar", "max_minutes", "seed", "device")}
    assert given == {"download": True, "grammar": True, "max_minutes": 2.0, "seed": 5, "device": "cuda"}


def test_json(asked):
    assert dragoman("demo", "--json").json == {"data": "grammar", "text": "für"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DemoStopped("stopped", cure="go on"), 75),
        (ConfigError("in the way", cure="c"), 2),
        (KeyboardInterrupt(), 130),
    ],
)
def test_how_it_can_end(error, code, monkeypatch):
    def run_demo(*_, **__):
        raise error

    monkeypatch.setattr("dragoman.demo.run_demo", run_demo)
    assert refused(code, "demo").startswith("dragoman: ")


def test_a_directory_in_the_way_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    assert "in the way" in refused(2, "demo", "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--max-minutes", "0"], "minutes"),
        (["--max-minutes", "nan"], "minutes"),
        (["--device", "frob"], "frob"),
    ],
)
def test_options_that_are_not_usable_leave_nothing(tmp_path, options, said):
    assert said in refused(2, "demo", "--out", tmp_path / "d", *options)
    assert list(tmp_path.iterdir()) == []
