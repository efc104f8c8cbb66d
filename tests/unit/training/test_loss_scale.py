"""fp16: the factor of the loss, updates that are left out, and that a run learns, stops and goes on all the same."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import make_task, pairs, tiny_recipe
from torch import Tensor

from dragoman.data.batches import Batch, Cursor
from dragoman.errors import NonFiniteLoss
from dragoman.machine import DTYPES
from dragoman.pipeline import evaluate, train
from dragoman.training import loss_scale
from dragoman.training.checkpoint import newest_checkpoint
from dragoman.training.events import Event, Stepped
from dragoman.training.loss_scale import LARGEST, SMALLEST, LossScale
from dragoman.training.optimizer import FlatAdam
from dragoman.training.step import gradient, optimizer_for, update
from dragoman.training.stopping import StopRequest
from dragoman.training.trainer import Trainer
from dragoman.translator import Translator


def test_only_fp16_has_one():
    assert LossScale.of("fp16") == LossScale()
    assert LossScale.of("fp32") is LossScale.of("bf16") is None


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5))
def test_it_halves_where_a_gradient_overflows_and_doubles_after_some_that_did_not(overflows, grows_after):
    scale, good = LossScale(), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss_scale, "GROWS_AFTER", grows_after)
        for overflowed in overflows:
            before, scale = scale, scale.after(overflowed=overflowed)
            good = 0 if overflowed else good + 1
            if overflowed:
                expected = max(before.factor / 2, SMALLEST)
            elif good == grows_after:
                expected, good = min(before.factor * 2, LARGEST), 0
            else:
                expected = before.factor
            assert (scale.factor, scale.updates) == (expected, good)
            assert SMALLEST <= scale.factor <= LARGEST
            assert scale.can_shrink is (scale.factor > SMALLEST)


class One:
    """A model in a number format, its optimizer and a batch."""

    def __init__(self, corpus, tmp_path, precision: str, *changes: str) -> None:
        self.recipe = tiny_recipe(f"training.precision={precision}", "model.P_drop=0.0", *changes)
        task = make_task(corpus, tmp_path, self.recipe)
        self.model = task.facts.build(1)
        self.optimizer: FlatAdam = optimizer_for(self.model, self.recipe)
        self.batch: Batch = next(task.loader.batches(Cursor()))[0]

    def gradient(self, factor: float, tokens_at_once: int = 10_000) -> Tensor:
        torch.manual_seed(1)
        gradient(
            self.model.train(),
            self.optimizer,
            self.batch,
            eps_ls=0.1,
            tokens_at_once=tokens_at_once,
            factor=factor,
        )
        return self.optimizer.gathered().double() / factor

    def state(self) -> dict[str, Tensor]:
        return {n: t.clone() for n, t in (self.optimizer.weights() | self.optimizer.moments()).items()}

    def adams_count(self) -> float:
        return float(self.optimizer._step)

    def update(self, step: int, scale: LossScale | None):
        return update(self.model, self.optimizer, self.batch, self.recipe, step, scale=scale)


def error(found: Tensor, exact: Tensor) -> float:
    return ((found - exact).norm() / exact.norm()).item()


@pytest.mark.parametrize("tokens_at_once", [10_000, 40])
def test_the_gradient_is_that_of_float32_whatever_the_factor(small_corpus, tmp_path, tokens_at_once):
    exact = One(small_corpus, tmp_path, "fp32").gradient(1.0)
    for factor in (1.0, 2.0**7, 2.0**10):
        found = One(small_corpus, tmp_path, "fp16").gradient(factor, tokens_at_once)
        assert error(found, exact) < 0.02, factor


def test_gradients_below_the_smallest_number_are_lost_without_it(small_corpus, tmp_path):
    """As they are of a loss so small; a factor that makes up for it brings them back (its inverse is in the loss)."""
    exact = One(small_corpus, tmp_path, "fp32").gradient(1.0)
    assert error(One(small_corpus, tmp_path, "fp16").gradient(2.0**-24), exact) > 0.1


def test_a_gradient_that_overflows_changes_no_weight_and_is_counted(small_corpus, tmp_path):
    one = One(small_corpus, tmp_path, "fp16")
    assert not one.update(1, LossScale()).overflowed
    before, model = one.state(), [p.detach().clone() for p in one.model.parameters()]
    done = one.update(2, LossScale(2.0**30))
    assert done.overflowed
    assert done.loss == pytest.approx(one.update(2, LossScale(2.0**30)).loss)
    assert all(torch.equal(before[name], now) for name, now in one.state().items())
    assert all(torch.equal(a, b) for a, b in zip(model, one.model.parameters(), strict=True))
    assert one.adams_count() == 3.0  # the number of the update, as a checkpoint has it
    assert not one.update(4, LossScale()).overflowed
    assert not all(torch.equal(before[name], now) for name, now in one.state().items())


def test_where_the_factor_cannot_shrink_it_is_an_error(small_corpus, tmp_path, monkeypatch):
    one = One(small_corpus, tmp_path, "fp16")
    monkeypatch.setattr(one.optimizer, "scale_gradient", lambda _scale: float("inf"))
    assert one.update(1, LossScale(2 * SMALLEST)).overflowed
    before = one.state()
    with pytest.raises(NonFiniteLoss, match="norm inf"):
        one.update(2, LossScale(SMALLEST))
    assert all(torch.equal(before[name], now) for name, now in one.state().items())


def test_a_loss_that_is_not_finite_is_an_error_at_once(small_corpus, tmp_path):
    one = One(small_corpus, tmp_path, "fp16")
    with torch.no_grad():
        next(one.model.parameters()).fill_(float("inf"))
    with pytest.raises(NonFiniteLoss):
        one.update(1, LossScale())


def test_clipping_is_of_the_true_gradient(small_corpus, tmp_path):
    clip = 'departures.training={name = "clipping", norm = 0.01}'
    one = One(small_corpus, tmp_path, "fp16", clip)
    assert one.update(1, LossScale(2.0**7)).gradient_norm > 0.01
    assert float(one.optimizer.gathered().norm()) == pytest.approx(0.01, rel=1e-3)


def run(corpus, folder, *, steps: int, resume: bool = False, events: list[Event] | None = None) -> Trainer:
    recipe = tiny_recipe("training.precision=fp16", f"training.max_steps={steps}", "model.P_drop=0.1")
    checkpoint = newest_checkpoint(folder, pytest.fail) if resume else None
    said = [] if events is None else events
    trainer = Trainer(make_task(corpus, folder, recipe), recipe, said.append, resume=checkpoint)
    trainer.run(StopRequest())
    return trainer


def test_a_run_that_overflows_and_is_stopped_goes_on_as_it_would_have(small_corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(loss_scale, "GROWS_AFTER", 3)
    monkeypatch.setattr(LossScale, "of", classmethod(lambda cls, _precision: cls(2.0**14)))
    events: list[Event] = []
    whole = run(small_corpus, tmp_path / "whole", steps=14, events=events)
    norms = [event.gradient_norm for event in events if isinstance(event, Stepped)]
    assert None in norms, "nothing overflowed: the test shows nothing"
    assert any(norm is not None for norm in norms)
    factors = [event.loss_scale for event in events if isinstance(event, Stepped)]
    for norm, factor, following in zip(norms, factors, factors[1:], strict=False):
        assert (following == factor / 2) is (norm is None)
    run(small_corpus, tmp_path / "parts", steps=5)
    again = run(small_corpus, tmp_path / "parts", steps=14, resume=True)
    assert again.place.loss_scale == whole.place.loss_scale
    assert whole.place.loss_scale[0] < 2.0**14
    for name, weight in (whole.optimizer.weights() | whole.optimizer.moments()).items():
        other = (again.optimizer.weights() | again.optimizer.moments())[name]
        assert torch.equal(weight, other), name


def test_it_learns_as_float32_does_and_what_it_learned_is_used_in_any_format(small_corpus, tmp_path):
    last = {}
    for precision in ("fp32", "fp16"):
        folder = tmp_path / precision
        recipe = tiny_recipe("training.max_steps=200", "optimizer.factor=1.0", "model.P_drop=0.0")
        train(small_corpus, folder, recipe=recipe.with_changes([f"training.precision={precision}"]))
        log = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        losses = [entry["loss"] for entry in log if entry["event"] == "stepped"]
        assert len(losses) == 200
        last[precision] = sum(losses[-20:]) / 20
        assert last[precision] < 0.7 * losses[0]
    assert last["fp16"] == pytest.approx(last["fp32"], rel=0.03)
    units, references = map(list, zip(*pairs(30, seed=5), strict=True))
    wide, narrow = (Translator.load(tmp_path / "fp16", precision=p) for p in ("fp32", "fp16"))
    assert narrow.model.dtype == DTYPES["fp16"]
    ours, theirs = ([t.text for t in each.translate(units)] for each in (wide, narrow))
    assert sum(a == b for a, b in zip(ours, theirs, strict=True)) >= 27
    assert len(evaluate(narrow, units, references).scores) > 1
