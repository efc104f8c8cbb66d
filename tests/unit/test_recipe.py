"""Recipes: strict, frozen, and the same after a round trip through TOML."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.model.config import ModelShape
from dragoman.recipe import (
    BatchSection,
    OptimizerSection,
    Recipe,
    SearchSection,
    SubwordSection,
    TrainingSection,
)
from dragoman.recipes.named import all_recipes

counts = st.integers(1, 10**6)
fractions = st.floats(0, 1, exclude_max=True)
positives = st.floats(0, 1e12, exclude_min=True, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
shapes = st.builds(
    ModelShape,
    N=counts,
    d_model=st.integers(1, 5000).map(lambda half: 2 * half),
    d_ff=counts,
    h=st.integers(1, 64),
    d_k=counts,
    d_v=counts,
    P_drop=fractions,
    shared_embeddings=st.booleans(),
    tied_output=st.booleans(),
)
recipes = st.builds(
    Recipe,
    name=texts,
    description=texts,
    model=shapes,
    subwords=st.builds(SubwordSection, vocab_size=counts, joint=st.booleans(), dropout=fractions),
    batch=st.builds(
        BatchSection, source_tokens=counts, target_tokens=counts, max_length=counts, tokens_at_once=counts
    ),
    optimizer=st.builds(
        OptimizerSection,
        beta_1=fractions,
        beta_2=fractions,
        epsilon=positives,
        warmup_steps=counts,
        factor=positives,
    ),
    training=st.builds(
        TrainingSection,
        eps_ls=fractions,
        max_steps=counts,
        max_minutes=st.none() | positives,
        precision=st.sampled_from(["fp32", "bf16"]),
        seed=st.integers(0, 2**63 - 1),
        checkpoint_minutes=positives,
        checkpoint_steps=st.none() | counts,
        patience=st.none() | counts,
        validate_steps=st.none() | counts,
    ),
    search=st.builds(
        SearchSection, beam_size=counts, alpha=st.floats(-10, 10), max_extra=st.integers(0, 10**6)
    ),
)


@settings(max_examples=60)
@given(recipes)
def test_toml_gives_any_recipe_back(recipe):
    text = recipe.to_toml()
    assert Recipe.from_toml(text) == recipe
    assert Recipe.from_toml(text).to_toml() == text


@pytest.mark.parametrize("recipe", all_recipes(), ids=lambda recipe: recipe.name)
def test_toml_gives_the_named_recipes_back(recipe, tmp_path):
    assert Recipe.from_toml(recipe.to_toml()) == recipe
    (tmp_path / "recipe.toml").write_text(recipe.to_toml(), encoding="utf-8")
    assert Recipe.from_file(tmp_path / "recipe.toml") == recipe
    assert recipe.with_changes([]) is recipe


@pytest.mark.parametrize(
    "text", ["\x7f", "\x00\x1f\\\"'", "\u2028\r\n\t", "ä\U0001f600", "'''\n[model]\nN = 1"]
)
def test_any_text_is_escaped(text):
    assert Recipe.from_toml(Recipe(description=text).to_toml()).description == text


def test_what_is_none_is_left_out():
    text = Recipe().to_toml()
    assert "max_minutes" not in text
    assert "patience" not in text
    assert tomllib.loads(text)["optimizer"] == {
        "beta_1": 0.9,
        "beta_2": 0.98,
        "epsilon": 1e-09,
        "warmup_steps": 4000,
        "factor": 1.0,
        "cooldown": 0.0,
    }


def test_fields_left_out_have_the_papers_values():
    assert Recipe.from_toml("") == Recipe()
    assert Recipe.from_toml("[model]\nN = 2").model == ModelShape(N=2)
    assert Recipe.from_toml("[training]\nmax_minutes = 3").training.max_minutes == 3.0


def test_a_recipe_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        Recipe().training.seed = 2
    with pytest.raises(ValueError, match="frozen"):
        Recipe().name = "x"


@pytest.mark.parametrize(
    ("change", "section", "field", "value"),
    [
        ("optimizer.factor=2", "optimizer", "factor", 2.0),
        ("optimizer.factor = 2.5", "optimizer", "factor", 2.5),
        ("optimizer.epsilon=1e-8", "optimizer", "epsilon", 1e-8),
        ("training.max_minutes=5", "training", "max_minutes", 5.0),
        ("training.patience=none", "training", "patience", None),
        ("training.precision=bf16", "training", "precision", "bf16"),
        ('training.precision="bf16"', "training", "precision", "bf16"),
        ("training.checkpoint_steps=1_000", "training", "checkpoint_steps", 1000),
        ("model.tied_output=false", "model", "tied_output", False),
        ("search.alpha=-1", "search", "alpha", -1.0),
        (" batch.max_length =  9 ", "batch", "max_length", 9),
    ],
)
def test_changes(change, section, field, value):
    found = getattr(getattr(Recipe().with_changes([change]), section), field)
    assert found == value
    assert type(found) is type(value)


def test_later_changes_win_and_others_stay():
    recipe = Recipe().with_changes(["training.seed=2", "name=mine", "training.seed=3", "description=a = b"])
    assert (recipe.training.seed, recipe.name, recipe.description) == (3, "mine", "a = b")
    same = {"name": "base", "description": "", "training": recipe.training.model_copy(update={"seed": 1})}
    assert recipe.model_copy(update=same) == Recipe()


@pytest.mark.parametrize(
    ("changes", "widths"),
    [
        (["model.d_model=256"], (32, 32)),
        (["model.h=16"], (32, 32)),
        (["model.d_model=1024", "model.h=16"], (64, 64)),
        (["model.d_k=16"], (16, 64)),
        (["model.d_k=16", "model.d_model=256"], (16, 32)),
        (["model.h=3", "model.d_k=10", "model.d_v=10"], (10, 10)),
        (["training.seed=4"], (64, 64)),
    ],
)
def test_widths_of_heads_follow_unless_given(changes, widths):
    """3.2.2: d_k = d_v = d_model / h."""
    model = Recipe().with_changes(changes).model
    assert (model.d_k, model.d_v) == widths


def test_widths_that_were_given_stay():
    given = Recipe().with_changes(["model.d_k=16", "model.d_v=24"])
    model = given.with_changes(["model.d_model=256"]).model
    assert (model.d_k, model.d_v) == (16, 24)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("optimizer.factor=-1", "optimizer.factor: it should be greater than 0"),
        ("optimizer.factor=inf", "optimizer.factor"),
        ("optimizer.factor=nan", "optimizer.factor"),
        ("search.alpha=nan", "search.alpha"),
        ("search.alpha=11", "search.alpha"),
        ("training.precision=fp8", "training.precision: it should be 'fp32', 'bf16' or 'fp16'"),
        ("training.seed=true", "training.seed"),
        ("training.seed=-1", "training.seed"),
        ("training.seed=9223372036854775808", "training.seed"),
        ("training.seed=1.0", "training.seed"),
        ("training.eps_ls=1", "training.eps_ls"),
        ("training.max_steps=many", "training.max_steps = 'many'"),
        ("batch.max_length=none", "batch.max_length = None"),
        ("model.N=0", "field N, value 0"),
        ("model.N=2.0", "field N, value 2.0"),
        ("model.h=3", "d_model 512 is not a multiple of h 3"),
        ("model.d_model=31", "d_model"),
        ("model.x=3", "no field 'model.x'"),
        ("modle.N=3", "no field 'modle.N'"),
        ("model=3", "no field 'model'"),
        ("name.x=3", "no field 'name.x'"),
        ("training.seed.x=3", "no field 'training.seed.x'"),
        ("seed=3", "no field 'seed'"),
        ("training.seed", "cannot read the change 'training.seed'"),
        ("=3", "cannot read the change '=3'"),
        ("", "cannot read the change ''"),
        ("name=3", "recipe field name"),
    ],
)
def test_wrong_changes_name_the_field(change, said):
    with pytest.raises(ConfigError) as caught:
        Recipe().with_changes([change])
    assert said in str(caught.value)


def test_an_unknown_field_is_met_with_those_there_are():
    with pytest.raises(ConfigError) as caught:
        Recipe().with_changes(["optimizer.beta1=0.9"])
    assert caught.value.cure == "fields here: beta_1, beta_2, cooldown, epsilon, factor, warmup_steps"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "dragoman recipe show"),
        ("[search]\nbeam = 1", "fields here: alpha, average_checkpoints, beam_size, max_extra"),
        (
            "[modle]\nN = 1",
            "fields here: batch, departures, description, model, name, optimizer, search, subwords, training",
        ),
        ("x", "not valid TOML"),
        ("name = 3", "recipe field name"),
        ("[model]\nN = 'a'", "field N"),
        ("[model]\nq = 1", "field q"),
        ("[modle]\nN = 1", "modle"),
        ("model = 3", "recipe field model"),
        ("[search]\nbeam_size = 1979-05-27", "search.beam_size"),
        ("[training]\nseed = 1\nseed = 2", "not valid TOML"),
        ("[optimizer]\nfactor = inf", "optimizer.factor"),
    ],
)
def test_a_wrong_file_is_named_with_its_field(tmp_path, text, said):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Recipe.from_file(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "latin").write_bytes(b"name = '\xe4'")
    for path in (tmp_path / "absent.toml", tmp_path, tmp_path / "latin"):
        with pytest.raises(ConfigError, match="cannot be read") as caught:
            Recipe.from_file(path)
        assert caught.value.where == str(path)
        assert not re.search(r"Errno|codec", caught.value.what), "in words"


def test_a_file_without_a_name_has_its_own(tmp_path):
    (tmp_path / "mine.toml").write_text("[model]\nN = 1\n", encoding="utf-8")
    assert Recipe.from_file(tmp_path / "mine.toml").name == "mine"
    (tmp_path / "mine.toml").write_text('name = "other"\n', encoding="utf-8")
    assert Recipe.from_file(tmp_path / "mine.toml").name == "other"


def test_a_name_says_that_its_model_is_another_now():
    mine = Recipe(name="mine")
    assert mine.with_changes(["training.max_steps=9"]).name == "mine"
    same = ["model.N=6", "model.P_drop=0.3", "model.shared_embeddings=false"]
    assert mine.with_changes(same).name == "mine", "as large as it was"
    once = mine.with_changes(["model.N=2"])
    assert (once.name, once.with_changes(["model.N=3"]).name) == ("mine, changed", "mine, changed")
    assert mine.with_changes(["model.N=2", "name=small"]).name == "small"


@pytest.mark.parametrize("values", [{"more": 1}, {"training": {"more": 1}}, {"name": None}, {"batch": []}])
def test_python_values_are_checked_alike(values: dict[str, Any]):
    with pytest.raises(ConfigError, match=r"recipe field"):
        Recipe(**values)
