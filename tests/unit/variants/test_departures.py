"""Departures as values: how a recipe writes them, what is refused, and what is said of each."""

from __future__ import annotations

import re

import pytest
from departing import EACH, ONE_STACK
from pydantic import ValidationError

from dragoman.errors import ConfigError
from dragoman.model.config import ModelShape
from dragoman.recipe import DepartureSection, Recipe
from dragoman.recipes.named import tiny
from dragoman.standing import standing
from dragoman.variants.departures import (
    GEGLU,
    KINDS,
    BlockSinusoids,
    DecoderOnly,
    EncoderOnly,
    GroupedQuery,
    PreNorm,
    Rope,
    check_departures,
    departures_of,
    stack_of,
)

SECTION = "departures.architecture"
ALL = EACH | ONE_STACK


def asked(text: str) -> tuple[object, ...]:
    return tiny().with_changes([f"{SECTION}={text}"]).departures.architecture


def test_none_by_default_and_then_no_recipe_shows_them():
    assert Recipe().departures.architecture == ()
    assert "departures" not in Recipe().to_toml()
    assert Recipe.from_toml("[departures]\narchitecture = []") == Recipe()
    assert asked("none") == asked("[]") == asked('""') == ()


@pytest.mark.parametrize(
    "text",
    ["pre_norm", '"pre_norm"', '["pre_norm"]', '{name = "pre_norm"}', '[{name = "pre_norm"}]', " pre_norm, "],
)
def test_ways_to_write_one(text):
    assert asked(text) == (PreNorm(),)


def test_as_values_in_python():
    recipe = Recipe(departures=DepartureSection(architecture=[PreNorm()]))
    assert recipe.departures.architecture == (PreNorm(),)
    assert departures_of(PreNorm()) == departures_of([PreNorm()]) == (PreNorm(),)


@pytest.mark.parametrize("name", ALL)
def test_a_recipe_gives_them_back(name, tmp_path):
    recipe = Recipe(
        model=ModelShape(N=1, d_model=12, d_ff=9, h=4, d_k=6, d_v=3),
        departures=DepartureSection(architecture=ALL[name]),
    )
    assert recipe.departures.architecture == ALL[name]
    (tmp_path / "r.toml").write_text(recipe.to_toml(), encoding="utf-8")
    again = Recipe.from_file(tmp_path / "r.toml")
    assert again == recipe
    assert again.to_toml() == recipe.to_toml()
    assert Recipe(**recipe.model_dump()) == recipe
    assert recipe.with_changes(["training.seed=2"]).departures == recipe.departures


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("post_norm", "there is no departure 'post_norm'"),
        ("pre_norm,nothing", "there is no departure 'nothing'"),
        ("[3]", "there is no departure 3"),
        ("{x = 1}", "there is no departure {'x': 1}"),
        ("{name = [1]}", "there is no departure"),
        ("5", "there is no departure 5"),
        ("true", "there is no departure True"),
    ],
)
def test_an_unknown_one_is_refused_and_the_known_ones_are_named(text, said):
    with pytest.raises(ConfigError) as caught:
        asked(text)
    assert said in str(caught.value)
    assert all(name in str(caught.value) for name in KINDS)
    assert SECTION in str(caught.value)


def test_in_a_file_too(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[departures]\narchitecture = ["nothing"]\n', encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        Recipe.from_file(path)
    assert "there is no departure 'nothing'" in str(caught.value)
    assert str(path) in str(caught.value)


# Notation, and what the error says.
REFUSED = {
    "pre_norm,pre_norm": "departure pre_norm is named twice",
    '{name = "pre_norm", x = 1}': "departure pre_norm has no field x",
    "swiglu": "departure swiglu wants its d_ff",
    "rope,relative_positions": "both say how positions are told",
    '{name = "relative_positions", farthest = 0}': "relative_positions: farthest is 0: it should be greater than",
    '{name = "query_key_norm", length = 1}': "query_key_norm: length is 1: it should be greater than or equal to 2",
    "pre_norm,final_norm": "departures pre_norm and final_norm do not go together: both say where the norms stand",
    "block_sinusoids": "departure block_sinusoids wants its wavelengths",
    '["learned_positions", {name = "block_sinusoids", wavelengths = "paper"}]': "both say how positions are told",
    "rope,learned_positions": (
        "departures rope and learned_positions do not go together: both say how positions are told"
    ),
    '{name = "attention_dropout", P_drop = 1.0}': "departure attention_dropout: P_drop is 1.0: it should be less than 1",
    '{name = "feed_forward_dropout", P_drop = 0}': "P_drop is 0: it should be greater than 0",
    "grouped_query": "departure grouped_query wants its groups",
    '{name = "grouped_query", groups = 0}': "departure grouped_query: groups is 0: it should be greater than",
    '["multi_query", {name = "grouped_query", groups = 2}]': "both say which heads share keys and values",
    "decoder_only,encoder_only": "both say which stacks there are",
    '["encoder_only", {name = "grouped_query", groups = 2}]': "it groups heads of the decoder, and there is none",
    '[{name = "grouped_query", groups = 2}, "encoder_only"]': "it groups heads of the decoder, and there is none",
    "encoder_only,zero_start": "a decoder begins with it, and there is none",
    "decoder_only,target_space": "it is added to what is translated",
    "encoder_only,target_space": "it is added to what is translated",
    '{name = "encoder_only", share = 0}': "encoder_only: share is 0: it should be greater than 0",
    '{name = "rope", base = 1.0}': "departure rope: base is 1.0: it should be greater than 1",
    '{name = "rope", base = "big"}': "departure rope: base is 'big'",
    '{name = "glu", d_ff = "half"}': "departure glu: d_ff is 'half': it should be 'kept' or 'two_thirds'",
    '[{name = "glu", d_ff = "kept"}, {name = "geglu", d_ff = "kept"}]': (
        "departures glu and geglu do not go together: both say what the feed-forward network is"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_makes_no_sense_is_refused_with_the_reason(text):
    with pytest.raises(ConfigError, match=re.escape(REFUSED[text])) as caught:
        asked(text)
    assert SECTION in str(caught.value)
    assert caught.value.cure


@pytest.mark.parametrize(
    ("stack", "search", "said"),
    [
        ("encoder_only", "power_penalty", "with encoder_only nothing is searched for"),
        (
            "decoder_only",
            '{name = "length_limit", plus = 9}',
            "with decoder_only there is no source whose length",
        ),
    ],
)
def test_a_model_of_one_text_has_no_search_of_a_translator(stack, search, said):
    changes = [f"{SECTION}={stack}", f"departures.search={search}"]
    with pytest.raises(ConfigError, match=said) as caught:
        tiny().with_changes(changes)
    assert "departures.search" in str(caught.value)
    assert tiny().with_changes([f"{SECTION}=decoder_only", "departures.search=power_penalty"])


def test_values_are_frozen_and_equal_by_value():
    with pytest.raises(ValidationError, match="frozen"):
        PreNorm().name = "other"
    assert PreNorm() == PreNorm()
    assert hash(PreNorm()) == hash(PreNorm())


@pytest.mark.parametrize("name", KINDS)
def test_each_says_what_it_decides_and_where_it_is_from(name):
    kind = KINDS[name]
    assert kind.model_fields["name"].default == name
    assert kind.__doc__
    assert kind.decides
    assert kind.instead_of
    assert re.fullmatch(r"[3](\.\d)*", kind.section)
    assert re.search(r"\b(19|20)\d\d\b", kind.source)


@pytest.mark.parametrize("name", KINDS)
def test_there_is_an_example_of_each_for_the_tests_that_hold_for_all(name):
    assert any(departure.name == name for made in ALL.values() for departure in made)


@pytest.mark.parametrize("name", ALL)
def test_the_banner_names_each_under_architecture(name):
    recipe = tiny().model_copy(update={"departures": DepartureSection(architecture=ALL[name])})
    found = standing(recipe)
    assert [d.choice for d in found.departures] == [departure.name for departure in ALL[name]]
    banner = found.banner("tiny")
    for departure in ALL[name]:
        assert f"{departure.name} of {departure.source}" in banner
        assert all(f"{field} {value}" in banner for field, value in departure.numbers.items())
    assert banner.endswith(", recipe as published, scale: tiny")


def test_as_text():
    assert str(PreNorm()) == "pre_norm"
    assert str(Rope(base=50)) == "rope(base=50.0)"


# What cannot be had with the sizes of a model, and what is said.
TOO_SMALL = {
    "geglu": (GEGLU(d_ff="two_thirds"), {"d_ff": 1}, "no two thirds of a d_ff of 1"),
    "grouped_query": (GroupedQuery(groups=3), {"h": 8}, "3 groups do not divide h 8"),
    "grouped_query of many": (GroupedQuery(groups=16), {"h": 8}, "16 groups do not divide h 8"),
    "block_sinusoids": (
        BlockSinusoids(wavelengths="tensor2tensor"),
        {"d_model": 2, "h": 1},
        "a d_model of 2 has a single wavelength",
    ),
    "decoder_only": (DecoderOnly(), {"shared_embeddings": False}, "there is one text"),
    "encoder_only": (EncoderOnly(), {"shared_embeddings": False}, "asks for embeddings of two"),
    "rope": (Rope(), {"d_k": 5}, "pairs of coordinates are turned, and d_k 5 is odd"),
}


@pytest.mark.parametrize("name", TOO_SMALL)
def test_sizes_that_do_not_allow_one_are_named(name):
    departure, sizes, said = TOO_SMALL[name]
    with pytest.raises(ConfigError, match=re.escape(said)) as caught:
        Recipe(model=ModelShape(**sizes), departures=DepartureSection(architecture=(departure,)))
    assert str(departure) in str(caught.value)


def test_the_stack_that_is_left():
    assert stack_of(()) is stack_of((PreNorm(), Rope())) is None
    assert stack_of((PreNorm(), DecoderOnly())) == DecoderOnly()
    assert stack_of((EncoderOnly(share=0.2),)) == EncoderOnly(share=0.2)


def test_checks_of_nothing_pass():
    check_departures((), ModelShape())
