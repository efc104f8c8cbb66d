"""Compiled layers: the same gradient, chosen only where it pays, undone where not, kept when a run goes on.

That a compiler's code computes the same on a GPU is in tests/device; here the graphs it is given are run as they are.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import compiled_layers
import pytest
import torch
from tiny_runs import make_task, tiny_recipe

from dragoman.model.config import ModelConfig
from dragoman.model.transformer import Transformer
from dragoman.training import compiled
from dragoman.training.checkpoint import newest_checkpoint
from dragoman.training.events import Said
from dragoman.training.stopping import StopRequest
from dragoman.training.trainer import Trainer

PROGRAM = Path(compiled_layers.__file__)


def test_one_graph_of_a_layer_serves_all_layers_and_lengths():
    result = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["graphs"] == found["graphs_after"] == 2  # the encoder's layer and the decoder's
    assert found["compiled"] < 1e-5
    assert found["undone"] == 0.0


@pytest.fixture
def model() -> Transformer:
    return Transformer(ModelConfig.tiny(vocab_size=40, N=2), seed=2)


@pytest.fixture
def clock(monkeypatch):
    """Seconds that the next gradients take, in turn."""
    taken: list[float] = []
    monkeypatch.setattr(compiled, "_seconds", lambda gradient: (gradient(), taken.pop(0))[1])
    return taken


def is_compiled(model) -> bool:
    return all(layer._compiled_call_impl is not None for layer in [*model.encoder, *model.decoder])


@pytest.mark.parametrize(
    ("seconds", "updates", "expected", "said"),
    [
        ([0.5, 0.2], 2_000, True, "layers are compiled: 200 ms a gradient, 500 ms as written"),
        ([0.5, 0.5], 2_000, False, "layers are not compiled, that would be slower"),
        ([0.5], 1_000, False, "the run is too short"),
    ],
)
def test_it_is_chosen_where_it_pays(model, clock, seconds, updates, expected, said):
    clock[:] = seconds
    choice = compiled.choose(model, lambda: None, longest_seconds=lambda each: updates * each)
    assert choice.compiled is expected
    assert said in choice.said
    assert is_compiled(model) is expected
    assert clock == []


def test_what_cannot_be_compiled_runs_as_it_is_written(model, clock):
    clock[:] = [0.5]
    calls = []

    def gradient() -> None:
        calls.append(is_compiled(model))
        if calls[-1]:
            raise RuntimeError("no compiler here\nand a long story")

    choice = compiled.choose(model, gradient, longest_seconds=lambda each: 1e6)
    assert calls == [False, True]
    assert not choice.compiled
    assert choice.said == "layers could not be compiled (RuntimeError: no compiler here)"
    assert not is_compiled(model)
    ids = torch.ones(1, 3, dtype=torch.int64)
    assert model(ids, ids).shape == (1, 3, 40)


def test_seconds_are_of_the_quickest_after_the_first():
    pace = iter([9.0, 9.0, 0.02, 0.01, 0.03])

    def gradient() -> None:
        compiled.time.sleep(min(next(pace), 0.05))

    assert 0.01 <= compiled._seconds(gradient) < 0.02


def trainer(corpus, folder, said: list, *, steps: int, resume: bool = False) -> Trainer:
    recipe = tiny_recipe(f"training.max_steps={steps}")
    checkpoint = newest_checkpoint(folder, pytest.fail) if resume else None
    return Trainer(make_task(corpus, folder, recipe), recipe, said.append, resume=checkpoint)


def test_a_run_on_a_processor_is_never_compiled(small_corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "choose", lambda *_, **__: pytest.fail("measured"))
    run = trainer(small_corpus, tmp_path, [], steps=2)
    run.run(StopRequest())
    assert run.place.compiled is None


@pytest.mark.parametrize("chosen", [True, False])
def test_the_choice_is_made_once_and_kept_when_the_run_goes_on(small_corpus, tmp_path, monkeypatch, chosen):
    measured, made, said = [], [], []

    def choose(model, gradient, *, longest_seconds) -> compiled.Choice:
        before = [p.clone() for p in model.parameters()]
        gradient()
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
        measured.append(longest_seconds(2.0))
        return compiled.Choice(chosen, "as it is")

    plain = trainer(small_corpus, tmp_path / "plain", [], steps=3)
    plain.run(StopRequest())
    monkeypatch.setattr(Trainer, "_can_compile", True)
    monkeypatch.setattr(compiled, "choose", choose)
    monkeypatch.setattr(compiled, "compile_layers", made.append)
    trainer(small_corpus, tmp_path / "run", said, steps=2).run(StopRequest())
    assert measured == [4.0]  # two updates of two seconds
    assert [event.text for event in said if isinstance(event, Said)] == ["as it is"]
    assert made == []  # but by the one who chose
    again = trainer(small_corpus, tmp_path / "run", said, steps=3, resume=True)
    again.run(StopRequest())
    assert measured == [4.0]
    assert made == ([again.model] if chosen else [])
    assert again.place.compiled is chosen
    for name, weight in plain.optimizer.weights().items():  # measuring changed nothing
        assert torch.equal(weight, again.optimizer.weights()[name])


def test_a_run_moved_to_a_processor_forgets_it(small_corpus, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_can_compile", True)
        patch.setattr(compiled, "choose", lambda *_, **__: compiled.Choice(True, ""))
        trainer(small_corpus, tmp_path, [], steps=2).run(StopRequest())
    moved = trainer(small_corpus, tmp_path, [], steps=3, resume=True)
    assert moved.place.compiled is None
    assert not is_compiled(moved.model)
