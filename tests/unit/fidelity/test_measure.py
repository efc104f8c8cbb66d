"""The whole measurement: a finding for each choice, and nothing that is not asked about is touched.

Paper: 3, 5, 6.1
"""

from __future__ import annotations

import pytest
import torch

from dragoman import paper
from dragoman.fidelity.choices import CHOICES, Choice
from dragoman.fidelity.measure import measure
from dragoman.recipes.named import all_recipes, base, recipe_named, tiny
from dragoman.standing import _FIELDS, Finding, standing
from dragoman.text.subwords import Subwords

DEPARTURES = {
    **{name: ["optimizer.cooldown 0.6 (paper 0.0, 5.3)"] for name in ("brief", "quick", "demo", "laptop")},
    "demo-grammar": ["optimizer.cooldown 0.3 (paper 0.0, 5.3)"],
}
ONE_STACK = ("lm", "masked-lm")  # what is found of these is in `test_one_stack`


@pytest.mark.parametrize(
    "recipe", [r for r in all_recipes() if r.name not in ONE_STACK], ids=lambda recipe: recipe.name
)
def test_the_recipes_that_come_with_dragoman(recipe):
    """The paper's own depart in nothing; the others in what is listed, and no banner is another than the recipe's."""
    found = measure(recipe)
    assert [str(f) for f in found.departures] == DEPARTURES.get(recipe.name, [])
    assert found.banner(recipe.name) == standing(recipe).banner(recipe.name)
    published = recipe.name in ("base", "big", "big-en-fr")
    assert (found.nearest, bool(found.differences)) == (recipe.name if published else "base", not published)


def test_there_is_a_finding_for_each_choice_and_each_field():
    found = measure(base())
    names = [f.choice for f in found.findings]
    fields = {field for field in _FIELDS if not field.startswith("departures.")}  # each has a line of its own
    assert sorted(names) == sorted([choice.name for choice in CHOICES] + list(fields))
    assert {f.section for f in found.findings} <= set(paper.SECTIONS)
    silent = {f.choice for f in found.findings if f.verdict == "silent"}
    assert silent == {choice.name for choice in CHOICES if choice.silent is not None}


def test_what_is_asked_for_is_measured_as_well():
    """The departures of a recipe by their names, and what the model made of them was found to do otherwise."""
    found = measure(recipe_named("tiny").with_changes(["departures.architecture=pre_norm,rope"]))
    assert found.banner("tiny") == (
        "Vaswani et al. 2017: architecture pre_norm of Xiong et al. 2020 (paper LayerNorm(x + Sublayer(x)), 3.1), "
        "rope of Su et al. 2021, base 10000.0 (paper sines and cosines of 10000^(2i/d_model), by turns, 3.5) "
        "(measured: norm place, final norms, position place, sinusoid layout, sinusoid wavelengths), recipe as "
        "published, scale: tiny"
    )


def test_a_choice_and_its_finding():
    said = Choice("norm place", "architecture", "3.1", "after the sum")
    assert said.finding("after the sum").verdict == "as published"
    assert str(said.finding("before")) == "norm place before (paper after the sum, 3.1)"
    open_ = Choice("initializer", "architecture", "3", "Glorot", "left open; tensor2tensor: {}")
    assert open_.finding("Glorot") == Finding(
        "initializer", "architecture", "3", "left open; tensor2tensor: Glorot", "Glorot", "silent"
    )
    assert open_.finding("zeros").verdict == "departure"


@pytest.mark.parametrize(
    ("change", "level", "departs"),
    [
        ("optimizer.beta_2=0.997", "recipe", ["optimizer.beta_2 0.997 (paper 0.98, 5.3)"]),
        ("optimizer.epsilon=1e-8", "recipe", ["optimizer.epsilon 1e-08 (paper 1e-09, 5.3)"]),
        ("search.max_extra=100", "recipe", ["search.max_extra 100 (paper 50, 6.1)"]),
        ("subwords.dropout=0.1", "recipe", ["subwords.dropout 0.1 (paper 0.0, 5.1)"]),
        (
            "model.tied_output=false",
            "architecture",
            [
                "embedding tying one matrix for source and target only (paper one matrix for source, target and "
                "output, 3.4)"
            ],
        ),
        ("model.P_drop=0.0", "scale", []),
        ("model.P_drop=0.25", "scale", []),
        ("model.h=1", "scale", []),
        ("training.eps_ls=0.0", "scale", []),
        ("optimizer.factor=2.0", "scale", []),
        ("optimizer.warmup_steps=1", "scale", []),
        ("search.alpha=0.0", "scale", []),
        ("search.beam_size=1", "scale", []),
        ("training.precision=bf16", None, []),
    ],
)
def test_what_a_change_of_the_recipe_makes_of_it(change, level, departs):
    found = measure(base().with_changes([change]))
    assert [str(f) for f in found.departures] == departs
    assert {f.level for f in found.differences} == ({level} if level else set())


def test_a_runs_own_subwords_are_looked_at():
    subwords = Subwords.train(["a b c", "b c d"], vocab_size=280)
    assert {f.choice: f.here for f in measure(tiny(), subwords=subwords).findings}[
        "subwords"
    ] == "byte-pair encoding"


def test_measuring_leaves_random_numbers_and_modes_as_they_were():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with torch.inference_mode():
        measure(recipe_named("tiny"))
        assert torch.is_inference_mode_enabled()
    with torch.no_grad():
        measure(recipe_named("tiny"))
        assert not torch.is_grad_enabled()
    assert torch.equal(torch.rand(3), expected)


def test_the_same_again():
    assert measure(tiny()) == measure(tiny())
