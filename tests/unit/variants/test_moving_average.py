"""A moving average of the weights: as PyTorch's, beside a run that is the same without it, stored and gone on with."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import last_checkpoint, make_task, state_digests, terminate_at, tiny_recipe
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from dragoman.bundle import open_bundle
from dragoman.data.batches import Cursor
from dragoman.errors import CheckpointError
from dragoman.pipeline import train
from dragoman.training import trainer as trainer_module
from dragoman.training.following import MovingAverage, average_for
from dragoman.training.step import optimizer_for, update
from dragoman.training.trainer import Trainer
from dragoman.variants.moving_average import taken_up

pytestmark = pytest.mark.usefixtures("quick_runs")
ASKED = 'departures.training=[{name = "moving_average", share = 0.2}]'
SHORT = ("training.max_steps=6", "training.checkpoint_steps=2", "search.average_checkpoints=1")


@given(st.integers(1, 10**7), st.floats(1e-6, 0.5))
def test_more_is_taken_up_at_first_and_then_the_share(step, share):
    """As Marian's: max(share, 1 - (n + 1) / (n + 10)) after n earlier updates."""
    n = step - 1
    assert taken_up(step, share) == pytest.approx(max(share, 1.0 - (n + 1) / (n + 10)), rel=1e-9)
    assert share <= taken_up(step + 1, share) <= taken_up(step, share) <= 0.9


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_it_is_pytorchs_where_the_share_is_constant(small_corpus, tmp_path, precision):
    recipe = tiny_recipe(f"training.precision={precision}")
    task = make_task(small_corpus, tmp_path, recipe)
    model = task.facts.build(1)
    optimizer = optimizer_for(model, recipe)
    average, batches = MovingAverage(optimizer, lambda _step: 0.2), task.loader.batches(Cursor())
    twin = torch.nn.ParameterList(weight.clone() for weight in optimizer.weights().values())
    theirs = AveragedModel(twin, multi_avg_fn=get_ema_multi_avg_fn(0.8))
    theirs.update_parameters(twin)  # the first time it copies
    for step in range(1, 6):
        update(model, optimizer, next(batches)[0], recipe, step)
        average.follow(step)
        with torch.no_grad():
            for parameter, weight in zip(twin, optimizer.weights().values(), strict=True):
                parameter.copy_(weight)
        theirs.update_parameters(twin)
    for ours, want in zip(average.weights().values(), theirs.module, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, want.detach(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_model_has_it_meanwhile_and_then_its_own_weights_to_the_bit(small_corpus, tmp_path, precision):
    recipe = tiny_recipe(f"training.precision={precision}", ASKED)
    model = make_task(small_corpus, tmp_path, recipe).facts.build(1)
    optimizer = optimizer_for(model, recipe)
    average = average_for(optimizer, recipe)
    average.load({name: weight + 1.0 for name, weight in average.weights().items()})
    masters = {name: weight.clone() for name, weight in optimizer.weights().items()}
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    with average.in_the_model():
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.float(), before[name].float() + 1.0, rtol=0.02, atol=0.01)
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
    assert all(torch.equal(weight, masters[name]) for name, weight in optimizer.weights().items())


def test_training_is_the_same_beside_it_and_the_checkpoint_holds_both(small_corpus, tmp_path):
    """What is stored as weights is the average; the weights of a run without are kept for going on."""
    for name, changes in (("with", (*SHORT, ASKED)), ("without", SHORT)):
        train(small_corpus, tmp_path / name, recipe=tiny_recipe(*changes))
    mean, plain = (last_checkpoint(tmp_path / name) for name in ("with", "without"))
    recipe = tiny_recipe(*SHORT, ASKED)
    model = make_task(small_corpus, tmp_path, recipe).facts.build(1)
    optimizer = optimizer_for(model, recipe)
    average = average_for(optimizer, recipe)
    mean.load_into(optimizer, average)
    own, weights = plain.bundle.weights(), mean.bundle.weights()
    assert all(torch.equal(weight, own[name]) for name, weight in optimizer.weights().items())
    assert all(torch.equal(weight, weights[name]) for name, weight in average.weights().items())
    assert any(not torch.equal(weights[name], own[name]) for name in own)
    stored = open_bundle(tmp_path / "with" / "model").weights()
    assert all(torch.equal(stored[name], weight) for name, weight in weights.items())


def test_by_hand_from_the_weights_of_each_update(small_corpus, tmp_path):
    recipe = tiny_recipe(*SHORT, ASKED, "training.checkpoint_steps=1", "training.keep_checkpoints=9")
    train(small_corpus, tmp_path / "with", recipe=recipe)
    plain = tiny_recipe(*SHORT, "training.checkpoint_steps=1", "training.keep_checkpoints=9")
    train(small_corpus, tmp_path / "without", recipe=plain)
    task = make_task(small_corpus, tmp_path, recipe)
    means = {name: parameter.detach().double() for name, parameter in task.facts.build(1).named_parameters()}
    for step in range(1, 7):
        bundle = open_bundle(tmp_path / "without" / "checkpoints" / f"step-{step:08d}")
        share = max(0.2, 9 / (step + 9))
        for name, weight in bundle.weights().items():
            means[name] = (1 - share) * means[name] + share * weight.double()
    got = last_checkpoint(tmp_path / "with").bundle.weights()
    for name, mean in means.items():
        torch.testing.assert_close(got[name].double(), mean, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_run_that_is_stopped_and_goes_on_is_the_run_that_was_not(small_corpus, tmp_path, precision):
    recipe = tiny_recipe(*SHORT, ASKED, f"training.precision={precision}")
    train(small_corpus, tmp_path / "whole", recipe=recipe)
    assert train(small_corpus, tmp_path / "parts", recipe=recipe, on_event=terminate_at(3)).interrupted
    train(small_corpus, tmp_path / "parts", resume=True)
    ends = [state_digests(last_checkpoint(tmp_path / name)) for name in ("whole", "parts")]
    assert ends[0] == ends[1]


def test_it_is_what_is_validated(small_corpus, tmp_path, monkeypatch):
    recipe = tiny_recipe(*SHORT, ASKED)
    seen = []
    ours = trainer_module.dev_loss

    def looked_at(model, *rest):
        seen.append({name: parameter.detach().clone() for name, parameter in model.named_parameters()})
        return ours(model, *rest)

    monkeypatch.setattr(trainer_module, "dev_loss", looked_at)
    train(small_corpus, tmp_path / "run", recipe=recipe)
    weights = last_checkpoint(tmp_path / "run").bundle.weights()
    assert all(torch.equal(seen[-1][name], weight) for name, weight in weights.items())


def test_a_checkpoint_without_one_is_not_gone_on_with(small_corpus, tmp_path):
    train(small_corpus, tmp_path / "run", recipe=tiny_recipe(*SHORT))
    recipe = tiny_recipe(*SHORT, ASKED)
    task = make_task(small_corpus, tmp_path, recipe)
    with pytest.raises(CheckpointError, match="of other rules"):
        Trainer(task, recipe, lambda _event: None, resume=last_checkpoint(tmp_path / "run"))
    model = task.facts.build(1)
    optimizer = optimizer_for(model, recipe)
    with pytest.raises(CheckpointError):
        last_checkpoint(tmp_path / "run").load_into(optimizer, average_for(optimizer, recipe))
