"""The rules of training are told from others by what an update does to the weights.

Paper: 5.3 (Eq. 3), 5.4, 6.1
"""

from __future__ import annotations

from functools import partial
from typing import Any

import other_parts
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman import native
from dragoman.fidelity import training as probes
from dragoman.fidelity.small import V, small_model
from dragoman.model.config import ModelShape
from dragoman.model.parts import PAPER, Parts
from dragoman.model.transformer import Transformer
from dragoman.recipe import Recipe
from dragoman.recipes.named import base
from dragoman.training import averaging, explicit, loss, step
from dragoman.training.optimizer import FlatAdam

FORM = "eps_ls over the other V - 1"
MEAN = "over the target tokens of a batch"
RULE = "d_model^-0.5 min(step^-0.5, step warmup_steps^-1.5)"


def model_of(parts: Parts = PAPER, **sizes: Any) -> Transformer:
    return small_model(ModelShape(d_model=64, h=4).model_copy(update=sizes), parts, P_drop=0.0)


def used(model: Transformer | None = None, *changes: str) -> probes.UsedGradient:
    return probes.used_gradient(model or model_of(), base().with_changes(changes))


@pytest.fixture(params=["kernels", "torch"])
def both_ways(request, monkeypatch):
    """With the gradient that is written out, and by autograd alone."""
    if request.param == "torch":
        monkeypatch.setattr(explicit, "serves", lambda _model: None)
    elif native.kernels() is None:
        pytest.skip("no kernels here")


@pytest.mark.parametrize("eps_ls", [0.0, 0.1, 0.2])
def test_an_update_uses_the_smoothed_loss_over_tokens_whole(both_ways, eps_ls):
    found = used(None, f"training.eps_ls={eps_ls}")
    assert found.rest < 1e-4
    assert found.norm > 10.0
    assert found.token_weights == pytest.approx((1 / 8, 1 / 8), rel=1e-4)
    assert found.others == pytest.approx(eps_ls / (V - 1), abs=1e-6)
    assert probes.smoothing_form(found, eps_ls) == FORM
    assert probes.mean_of_the_loss(found) == MEAN
    assert probes.gradient_clipping(found) == "none"


@pytest.mark.parametrize(
    "parts",
    [
        Parts(residual=other_parts.PreNorm),
        Parts(attention=other_parts.Unscaled),
        Parts(attention=other_parts.OneKeyHead),
        Parts(feed_forward=other_parts.Smooth),
        Parts(residual=other_parts.with_norm(other_parts.RootMeanSquare)),
    ],
    ids=["pre-norm", "unscaled", "one key head", "gelu", "rms"],
)
def test_the_rules_of_training_are_found_whatever_the_model_is_made_of(parts):
    model = model_of(parts)
    found = used(model)
    assert (probes.smoothing_form(found, 0.1), probes.mean_of_the_loss(found)) == (FORM, MEAN)
    adam = probes.adam_measured(model, base())
    assert (adam.form, adam.decay) == ("Adam", "none")
    assert probes.rate_measured(model, base()).rule == RULE


@pytest.mark.parametrize("h", [1, 2, 3, 8, 16, 32, 64])
def test_what_is_looked_for_is_far_above_what_float32_loses(h):
    found = used(model_of(h=h))
    assert found.rest < 0.01 * probes.TOLERANCE
    assert found.padding == pytest.approx(0.0, abs=0.1 * probes.FAINT)
    assert found.others * (V - 1) == pytest.approx(0.1, rel=0.03 * probes.TOLERANCE)
    assert found.norm > 10.0


@pytest.mark.parametrize("sizes", [{"tied_output": False}, {"shared_embeddings": False}, {"h": 1}, {"h": 16}])
def test_the_rules_of_training_are_found_for_other_matrices(sizes):
    model = model_of(**sizes)
    found = used(model)
    assert (probes.smoothing_form(found, 0.1), probes.mean_of_the_loss(found)) == (FORM, MEAN)
    assert probes.gradient_clipping(found) == "none"


def with_loss(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Trains by autograd with a loss of written-out probabilities: `change` gives q from eps, V and the true one."""

    def output_loss(
        hidden: Tensor, weight: Tensor, targets: Tensor, eps_ls: float, *, pad_id: int, **_rest: Any
    ) -> Any:
        kept = targets != pad_id
        log_p = (hidden @ weight.T)[kept].log_softmax(dim=-1)
        q = change(torch.nn.functional.one_hot(targets[kept], V).float(), eps_ls)
        return loss.LossSum(-(q * log_p).sum(), log_p.detach().sum(), int(kept.sum()))

    monkeypatch.setattr(step, "output_loss", output_loss)
    monkeypatch.setattr(explicit, "serves", lambda _model: None)


def over_all(true: Tensor, eps: float) -> Tensor:
    return (1 - eps) * true + eps / V


def without_padding(true: Tensor, eps: float) -> Tensor:
    others = (1 - true) * eps / (V - 2)
    others[:, 0] = 0.0
    return (1 - eps) * true + others


def over_others(true: Tensor, eps: float) -> Tensor:
    return (1 - eps) * true + (1 - true) * eps / (V - 1)


def half_as_much(true: Tensor, eps: float) -> Tensor:
    return over_others(true, eps / 2)


def to_the_first(true: Tensor, eps: float) -> Tensor:
    others = torch.zeros_like(true)
    others[:, 7] = eps
    return (1 - eps) * true + others


@pytest.mark.parametrize(
    ("q", "said"),
    [
        (over_others, FORM),
        (over_all, "eps_ls over all V"),
        (without_padding, "eps_ls over the other V - 2, padding left out"),
        (half_as_much, "0.05 over the other V - 1"),
        (to_the_first, "another loss"),
    ],
)
def test_ways_to_smooth(monkeypatch, q, said):
    with_loss(monkeypatch, q)
    assert probes.smoothing_form(used(), 0.1) == said


@pytest.mark.parametrize("limit", [0.1, 1.0, 5.0])
def test_a_gradient_that_is_cut(monkeypatch, limit):
    ours = FlatAdam.scale_gradient

    def cut(self: FlatAdam, scale: float) -> float:
        norm = ours(self, scale)
        return norm if norm <= limit else ours(self, limit / norm)

    monkeypatch.setattr(FlatAdam, "scale_gradient", cut)
    found = used()
    assert probes.gradient_clipping(found) == f"to a norm of {limit:.3g}"
    assert (probes.smoothing_form(found, 0.1), probes.mean_of_the_loss(found)) == (FORM, MEAN)


def test_a_sum_in_place_of_a_mean(monkeypatch):
    ours = FlatAdam.scale_gradient
    monkeypatch.setattr(FlatAdam, "scale_gradient", lambda self, _scale: ours(self, 1.0))
    assert probes.mean_of_the_loss(used()) == MEAN  # all tokens count alike, and Adam does not see the rest


@settings(max_examples=8)
@given(
    beta_1=st.sampled_from([0.0, 0.5, 0.9, 0.99]),
    beta_2=st.sampled_from([0.0, 0.9, 0.98, 0.997, 0.999]),
    epsilon=st.sampled_from([1e-12, 1e-9, 1e-8, 1e-6, 1e-3]),
)
def test_adams_constants_are_those_of_the_recipe(beta_1, beta_2, epsilon):
    changes = [f"optimizer.beta_1={beta_1}", f"optimizer.beta_2={beta_2}", f"optimizer.epsilon={epsilon}"]
    adam = probes.adam_measured(model_of(), base().with_changes(changes))
    assert adam.beta_1 == pytest.approx(beta_1, abs=1e-6)
    assert adam.beta_2 == pytest.approx(beta_2, abs=1e-6)
    assert adam.epsilon == pytest.approx(epsilon, rel=1e-4)
    assert (adam.form, adam.decay) == ("Adam", "none")


def test_weights_that_decay(monkeypatch):
    def decaying(*state: Any, weight_decay: float, **rule: Any) -> None:
        assert weight_decay == 0.0
        torch._fused_adamw_(*state, weight_decay=0.01, **rule)

    monkeypatch.setattr(torch, "_fused_adam_", decaying)
    adam = probes.adam_measured(model_of(), base())
    assert (adam.decay, adam.beta_2) == ("some", pytest.approx(0.98))


def test_epsilon_inside_the_root_and_no_correction_are_not_adam(monkeypatch):
    def uncorrected(*state: Any, lr: float, beta1: float, beta2: float, eps: float, **_rest: Any) -> None:
        """Adam without the correction of its moments' beginnings."""
        weights, gradients, firsts, seconds, *_ = state
        for weight, gradient, first, second in zip(weights, gradients, firsts, seconds, strict=True):
            first.lerp_(gradient, 1 - beta1)
            second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            weight -= lr * first / (second.sqrt() + eps)

    monkeypatch.setattr(torch, "_fused_adam_", uncorrected)
    assert probes.adam_measured(model_of(), base()).form == "another than Adam"


@pytest.mark.parametrize(("warmup", "factor"), [(1, 1.0), (60, 0.5), (4_000, 2.0), (16_000, 1.0)])
def test_rates_are_equation_3_times_the_factor(warmup, factor):
    recipe = base().with_changes([f"optimizer.warmup_steps={warmup}", f"optimizer.factor={factor}"])
    found = probes.rate_measured(model_of(), recipe)
    assert found.rule == RULE
    assert found.factor == pytest.approx(factor, rel=1e-3)


@pytest.mark.parametrize(
    "rate",
    [
        lambda step, d_model, warmup_steps: 1e-3,
        lambda step, d_model, warmup_steps: 5e-4 * min(1.0, step / warmup_steps),
        lambda step, d_model, warmup_steps: d_model**-0.5 * step**-0.5,
        lambda step, d_model, warmup_steps: d_model**-0.5 * warmup_steps**-0.5 * min(1, step / warmup_steps),
    ],
    ids=["constant", "by hand", "no warm-up", "no fall"],
)
def test_other_rates(monkeypatch, rate):
    def learning_rate(step: int, *, d_model: int, warmup_steps: int, **_rest: Any) -> float:
        return rate(step, d_model, warmup_steps)

    monkeypatch.setattr(step, "learning_rate", learning_rate)
    assert probes.rate_measured(model_of(), base()).rule == "another"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("linear_decay", "linear after the warm-up"),
        ('{name = "linear_decay", to = 0.25}', "linear after the warm-up, to 0.25"),
        ("cosine_decay", "a cosine after the warm-up"),
        ('{name = "cosine_decay", to = 0.1}', "a cosine after the warm-up, to 0.1"),
    ],
)
@pytest.mark.parametrize("limits", [(4_000, 100_000), (10, 40), (100, 300)])
def test_falls_that_were_asked_for(asked, said, limits):
    warmup, last = limits
    recipe = base().with_changes(
        [f"optimizer.warmup_steps={warmup}", f"training.max_steps={last}", f"departures.training={asked}"]
    )
    found = probes.rate_measured(model_of(), recipe)
    assert found.rule == said
    assert found.factor == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("smoothing_over_all", "eps_ls over all V"),
        ("smoothing_without_padding", "eps_ls over the other V - 2, padding left out"),
    ],
)
def test_smoothing_that_was_asked_for(both_ways, asked, said):
    found = used(None, f"departures.training={asked}")
    assert found.rest < 1e-4
    assert (probes.smoothing_form(found, 0.1), probes.mean_of_the_loss(found)) == (said, MEAN)


def test_clipping_and_averages_that_were_asked_for():
    asked = 'departures.training=[{name = "clipping", norm = 2.0}, {name = "moving_average", share = 0.125}]'
    found = used(None, asked)
    assert probes.gradient_clipping(found) == "to a norm of 2"
    assert probes.smoothing_form(found, 0.1) == FORM
    said = probes.averaging(model_of(), base().with_changes([asked]))
    assert said == "plain mean of checkpoints of a moving average, 0.125 of each update"


def test_a_rate_that_the_optimizer_does_not_keep_to(monkeypatch):
    """What counts is how far weights move, not what is reported."""
    ours = FlatAdam.step
    monkeypatch.setattr(FlatAdam, "step", lambda self, rate: ours(self, 0.5 * rate))
    assert probes.rate_measured(model_of(), base()).factor == pytest.approx(0.5, rel=1e-3)


def test_averaging(monkeypatch):
    assert probes.averaging(model_of(), base()) == "plain mean of checkpoints"
    ours = averaging.mean_weights

    def the_last(models: Any) -> Any:
        return ours(list(models)[-1:])

    monkeypatch.setattr(probes, "mean_weights", the_last)
    assert probes.averaging(model_of(), base()) == "another mean of checkpoints"


def test_nothing_is_left_changed():
    model, recipe = model_of(), base()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for probe in (probes.used_gradient, probes.adam_measured, probes.rate_measured):
        partial(probe, model, recipe)()
    assert isinstance(recipe, Recipe)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
