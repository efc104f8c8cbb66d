"""What well-known systems are found to do otherwise, choice by choice; and each is a recipe that can be trained.

Paper: 3, 5, 6.1
"""

from __future__ import annotations

import re

import pytest

from dragoman.errors import ConfigError
from dragoman.fidelity.measure import measure
from dragoman.fidelity.report import report_like
from dragoman.model.config import ModelConfig
from dragoman.recipe import Recipe
from dragoman.recipes.named import recipe_named
from dragoman.recipes.systems import SYSTEMS, system_recipes, tensor2tensor_base_v2
from dragoman.standing import _ASKED

PRE = {"norm place": "before the sub-layer", "final norms": "after the encoder and the decoder"}
BLOCKS = {
    "sinusoid layout": "all sines, then all cosines",
    "sinusoid wavelengths": "2 pi 10000^(i/(d_model/2 - 1))",
}
MORE_DROPOUT = {"dropout places": "sub-layer outputs, embedding + position, attention, feed-forward"}
BIASES = {"attention biases": "some"}
WITHOUT_PADDING = {"smoothing form": "eps_ls over the other V - 2, padding left out"}
OVER_ALL = {"smoothing form": "eps_ls over all V"}
POWER = {"length penalty": "n^alpha"}

# What probes find, system by system: nothing else departs.
EXPECTED: dict[str, dict[str, object]] = {
    "tensor2tensor": PRE
    | BLOCKS
    | MORE_DROPOUT
    | {
        "start token": "a zero vector",
        "encoder input": "embedding + position + a vector",
        "optimizer.beta_2": 0.997,
        "search.max_extra": 100,
    },
    "fairseq": BLOCKS
    | BIASES
    | POWER
    | {
        "norm constants": "epsilon 1e-05, gain and bias",
        "start token": "EOS, an ordinary row",
        "optimizer.epsilon": 1e-8,
        "search.max_extra": "200 in all",
    },
    "annotated": PRE
    | BIASES
    | MORE_DROPOUT
    | WITHOUT_PADDING
    | {
        "norm formula": "mean 0, deviation 1 of d_model - 1 over the width",
        "norm constants": "epsilon 1e-06 beside the deviation, gain and bias",
        "embedding tying": "three matrices",
        "output map": "x E^T and a bias",
        "subwords.joint": False,
        "search.max_extra": "72 in all",
    },
    "marian": BLOCKS
    | BIASES
    | POWER
    | OVER_ALL
    | {
        "norm constants": "epsilon 1e-09, gain and bias",
        "output map": "x E^T and a bias",
        "start token": "a zero vector",
        "averaging": "plain mean of checkpoints of a moving average, 0.0001 of each update",
        "search.max_extra": "3 S",
    },
    "joeynmt": PRE
    | BIASES
    | MORE_DROPOUT
    | WITHOUT_PADDING
    | {"optimizer.epsilon": 1e-8, "search.max_extra": "100 in all"},
    "torch": BIASES
    | MORE_DROPOUT
    | OVER_ALL
    | {
        "final norms": "after the encoder and the decoder",
        "norm constants": "epsilon 1e-05, gain and bias",
    },
}


def test_every_system_is_here():
    assert set(EXPECTED) == set(SYSTEMS)


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_probes_find_of_each(name):
    report = report_like(name, [])
    found = {f.choice: f.here for f in report.standing.departures}
    asked = {departure.name for departure in SYSTEMS[name]().recipe.departures.all}
    assert {choice: here for choice, here in found.items() if choice not in _ASKED} == EXPECTED[name]
    assert found.keys() & _ASKED == asked
    assert report.kind == "system"
    assert report.source == SYSTEMS[name]().source
    assert report.not_expressed


def test_the_earlier_set_of_tensor2tensor_has_the_papers_beta():
    found = {f.choice: f.here for f in measure(tensor2tensor_base_v2().recipe).departures}
    measured = {choice: here for choice, here in found.items() if choice not in _ASKED}
    assert measured == {key: said for key, said in EXPECTED["tensor2tensor"].items() if "beta" not in key}


@pytest.mark.parametrize("recipe", system_recipes(), ids=lambda recipe: recipe.name)
def test_each_is_a_recipe_by_its_name_and_as_a_file(recipe):
    assert recipe_named(recipe.name) == recipe
    assert Recipe.from_toml(recipe.to_toml()) == recipe
    assert ModelConfig.from_shape(recipe.model, vocab_size=recipe.subwords.vocab_size).d_k == 64
    assert recipe.training.keep_checkpoints >= recipe.search.average_checkpoints


@pytest.mark.parametrize(
    ("name", "highest", "warmup"),
    [
        ("tensor2tensor-base-v2", 2.0 * (512 * 8000) ** -0.5, 8_000),
        ("tensor2tensor-base-v3", 2.0 * (512 * 8000) ** -0.5, 8_000),
        ("fairseq-base", 5e-4, 4_000),
        ("annotated-base", (512 * 3000) ** -0.5, 3_000),
        ("marian-base", 3e-4, 16_000),
        ("joeynmt-base", 2e-4, 4_000),
    ],
)
def test_the_highest_rate_is_the_systems(name, highest, warmup):
    rule = recipe_named(name).optimizer
    assert rule.warmup_steps == warmup
    assert rule.factor * (512 * warmup) ** -0.5 == pytest.approx(highest, rel=2e-3)


def test_a_field_can_be_changed():
    found = {f.choice for f in report_like("torch", ["optimizer.beta_2=0.9"]).standing.departures}
    assert "optimizer.beta_2" in found


def test_a_system_that_is_not_known():
    with pytest.raises(ConfigError, match="nothing is known of a system 'frob'") as caught:
        report_like("frob", [])
    assert all(name in str(caught.value.cure) for name in SYSTEMS)


@pytest.mark.parametrize("name", SYSTEMS)
def test_where_it_was_read_is_named_with_its_version(name):
    assert re.search(r"\b[0-9a-f]{8}\b|\b2\.x\b", SYSTEMS[name]().source)
