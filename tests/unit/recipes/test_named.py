"""The recipes that come with dragoman; base and big number by number.

Paper: 5, 5.2, 6.1, Table 3
"""

from __future__ import annotations

import pytest

from dragoman.errors import ConfigError
from dragoman.model.config import ModelConfig
from dragoman.model.count import count_parameters
from dragoman.recipes import named
from dragoman.recipes.named import (
    all_recipes,
    base,
    big,
    big_en_fr,
    brief,
    demo,
    laptop,
    quick,
    recipe_named,
    with_updates,
)
from dragoman.training.schedule import learning_rate

# The paper's numbers, written down apart: 3.1-3.3, 5.1-5.4, 6.1 and Table 3.
PAPER = {
    "model.N": 6,
    "model.d_model": 512,
    "model.d_ff": 2048,
    "model.h": 8,
    "model.d_k": 64,
    "model.d_v": 64,
    "model.P_drop": 0.1,
    "model.shared_embeddings": True,
    "model.tied_output": True,
    "subwords.vocab_size": 37_000,
    "subwords.joint": True,
    "subwords.dropout": 0.0,
    "batch.source_tokens": 25_000,
    "batch.target_tokens": 25_000,
    "optimizer.beta_1": 0.9,
    "optimizer.beta_2": 0.98,
    "optimizer.epsilon": 1e-9,
    "optimizer.warmup_steps": 4_000,
    "optimizer.factor": 1.0,
    "training.eps_ls": 0.1,
    "training.max_steps": 100_000,
    "training.max_minutes": None,
    "training.checkpoint_minutes": 10.0,
    "search.average_checkpoints": 5,
    "search.beam_size": 4,
    "search.alpha": 0.6,
    "search.max_extra": 50,
}
BIG = PAPER | {
    "model.d_model": 1024,
    "model.d_ff": 4096,
    "model.h": 16,
    "model.P_drop": 0.3,
    "training.max_steps": 300_000,
    "search.average_checkpoints": 20,
}
BIG_EN_FR = BIG | {"model.P_drop": 0.1, "subwords.vocab_size": 32_000}


@pytest.mark.parametrize(
    ("recipe", "numbers"),
    [(base(), PAPER), (big(), BIG), (big_en_fr(), BIG_EN_FR)],
    ids=["base", "big", "big-en-fr"],
)
def test_numbers_of_the_paper(recipe, numbers):
    found = {path: getattr(getattr(recipe, path.split(".")[0]), path.split(".")[1]) for path in numbers}
    assert found == numbers


@pytest.mark.parametrize("recipe", all_recipes(), ids=lambda recipe: recipe.name)
def test_every_recipe_can_be_followed(recipe):
    config = ModelConfig.from_shape(recipe.model, vocab_size=recipe.subwords.vocab_size)
    assert config.d_k == config.d_v == config.d_model // config.h
    assert recipe.description
    assert recipe_named(recipe.name) == recipe
    assert recipe.training.keep_checkpoints >= recipe.search.average_checkpoints, (
        "or there is less to average"
    )
    assert recipe.batch.max_length <= min(recipe.batch.source_tokens, recipe.batch.target_tokens)
    assert recipe.batch.tokens_at_once <= recipe.batch.target_tokens
    assert getattr(named, recipe.name.replace("-", "_"))() == recipe


def test_sizes_are_those_of_table_3():
    """63 million and 214 million weights at 37,000 subwords (65 and 213 in the paper, whose vocabulary differs)."""
    counts = [
        count_parameters(ModelConfig.from_shape(recipe.model, vocab_size=37_000)).total
        for recipe in (base(), big())
    ]
    assert [round(count / 1e6) for count in counts] == [63, 214]


def test_names_are_distinct_and_docstrings_give_the_command():
    names = [recipe.name for recipe in all_recipes()]
    assert len(set(names)) == len(names)
    for name in names:
        docstring = getattr(named, name.replace("-", "_")).__doc__
        assert "dragoman train PREPARED" in docstring or "dragoman demo" in docstring
        if "dragoman train" in docstring:
            assert f"--recipe {name} --out RUN" in docstring


def test_an_unknown_name_is_met_with_those_there_are():
    with pytest.raises(ConfigError) as caught:
        recipe_named("bsae")
    assert "no recipe 'bsae'" in caught.value.what
    assert all(recipe.name in caught.value.cure for recipe in all_recipes())


@pytest.mark.parametrize("recipe", [brief(), quick(), demo(), laptop()], ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("updates", [10.0, 200.0, 840.0, 2_399.0])
def test_where_there_are_few_updates_the_rate_rises_sooner_to_the_same_height(recipe, updates):
    changed = with_updates(recipe, updates)
    assert changed.optimizer.warmup_steps == max(50, int(updates / 4)) < recipe.optimizer.warmup_steps
    heights = [
        learning_rate(
            rule.warmup_steps,
            d_model=recipe.model.d_model,
            warmup_steps=rule.warmup_steps,
            factor=rule.factor,
        )
        for rule in (recipe.optimizer, changed.optimizer)
    ]
    assert heights[1] == pytest.approx(heights[0], rel=0.01)
    same = ("model", "subwords", "batch", "training", "search", "departures")
    assert all(getattr(changed, part) == getattr(recipe, part) for part in same)


@pytest.mark.parametrize("updates", [2_400.0, 5_000.0])
def test_with_enough_updates_a_recipe_is_as_it_is(updates):
    assert with_updates(demo(), updates) == demo()
