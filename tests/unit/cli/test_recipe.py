"""`dragoman recipe` from the command line."""

from __future__ import annotations

import pytest
from command_line import done, refused

from dragoman import native
from dragoman.recipe import Recipe
from dragoman.recipes.named import all_recipes, recipe_named
from dragoman.recipes.systems import system_recipes
from dragoman.standing import standing

RECIPES = [*all_recipes(), *system_recipes()]
NAMES = [recipe.name for recipe in RECIPES]


def test_list_has_a_line_for_each():
    lines = done("recipe", "list").lines
    assert [line.split()[0] for line in lines] == NAMES
    assert all(len(line.split()) > 2 for line in lines)


def test_list_as_json_is_every_field():
    assert [Recipe(**record) for record in done("recipe", "list", "--json").json] == RECIPES


@pytest.mark.parametrize("name", NAMES)
def test_show_prints_a_file_to_change(name, tmp_path):
    result = done("recipe", "show", name)
    assert Recipe.from_toml(result.text) == recipe_named(name)
    assert result.err.startswith("Vaswani et al. 2017: ")
    (tmp_path / "mine.toml").write_bytes(result.out)
    assert done("recipe", "show", tmp_path / "mine.toml").out == result.out


def test_show_says_how_it_stands_to_the_paper():
    published = done("recipe", "show", "base").err
    assert published == standing(recipe_named("base")).banner("base") + "\n"
    assert "architecture and recipe as published, scale: as published" in published
    changed = done("recipe", "show", "base", "--set", "subwords.dropout=0.1").err.splitlines()
    assert "recipe subwords.dropout 0.1 (paper 0.0, 5.1)" in changed[0]
    assert changed[1:] == ["  subwords.dropout 0.1 (paper 0.0, 5.1)"]


@pytest.mark.parametrize("command", [("recipe", "show"), ("fidelity",)], ids=" ".join)
def test_a_first_time_takes_longer_and_is_told(command, monkeypatch):
    monkeypatch.setattr(native, "will_compile", lambda: True)
    assert done(*command, "tiny").err.startswith(
        "compiling kernels for this processor, once: up to a minute or two\n"
    )


def test_show_as_json():
    record = done("recipe", "show", "base", "--set", "optimizer.factor=2", "--json").json
    assert record["recipe"]["optimizer"]["factor"] == 2.0
    assert record["standing"].startswith("Vaswani et al. 2017")
    assert record["differences"] == ["optimizer.factor 2.0 (paper 1.0, 5.3)"]


def test_changes_are_applied():
    recipe = Recipe.from_toml(
        done("recipe", "show", "base", "--set", "model.h=4", "--set", "training.seed=9").text
    )
    assert (recipe.model.h, recipe.model.d_k, recipe.training.seed) == (4, 128, 9)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frob"], ["frob", "base"]),
        (["missing.toml"], ["missing.toml"]),
        (["base", "--set", "frob"], ["section.field=value"]),
        (["base", "--set", "model.frob=1"], ["model.frob"]),
        (["base", "--set", "training.seed=-1"], ["training.seed"]),
        (["base", "--set", "training.precision=fp8"], ["training.precision", "fp8"]),
    ],
)
def test_what_is_no_recipe_is_refused(arguments, said):
    message = refused(2, "recipe", "show", *arguments)
    assert all(part in message for part in said), message


def test_departures_are_shown_listed_and_named():
    change = 'departures.architecture=["pre_norm", {name = "rope", base = 500.0}]'
    result = done("recipe", "show", "tiny", "--set", change)
    assert result.text.endswith(
        '\n[departures]\narchitecture = ["pre_norm", {name = "rope", base = 500.0}]\n'
    )
    assert "architecture pre_norm of Xiong et al. 2020" in result.err
    assert "rope of Su et al. 2021, base 500.0 (paper" in result.err
    record = done("recipe", "show", "tiny", "--set", change, "--json").json
    assert record["recipe"]["departures"]["architecture"] == [
        {"name": "pre_norm"},
        {"name": "rope", "base": 500.0},
    ]
    assert Recipe(**record["recipe"]).departures.architecture[1].base == 500.0


def test_departures_that_do_not_go_together_are_refused():
    both = "departures.architecture=rope,learned_positions"
    assert "rope and learned_positions do not go together" in refused(
        2, "recipe", "show", "tiny", "--set", both
    )
    unknown = refused(2, "recipe", "show", "tiny", "--set", "departures.architecture=foo")
    assert "there is no departure 'foo'" in unknown
    assert "pre_norm, rms_norm" in unknown
