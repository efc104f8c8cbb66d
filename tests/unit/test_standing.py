"""How recipes stand to the paper."""

from __future__ import annotations

import pytest

from dragoman.recipe import Recipe
from dragoman.recipes.named import all_recipes, base, big, tiny
from dragoman.standing import _FIELDS, Finding, Standing, standing

# What no number says is found by probes (fidelity).
PROBED = {"model.shared_embeddings", "model.tied_output"}
# Habits of a run that the paper has no rule for.
NO_RULE = {
    "batch.max_length",
    "batch.tokens_at_once",
    "training.precision",
    "training.seed",
    "training.checkpoint_minutes",
    "training.checkpoint_steps",
    "training.keep_checkpoints",
    "training.validate_steps",
    "training.validation_sentences",
    "training.patience",
    "training.log_steps",
}


def test_every_field_has_a_level_or_no_rule():
    fields = {
        f"{section}.{field}"
        for section, values in Recipe().model_dump().items()
        if isinstance(values, dict)
        for field in values
    }
    assert fields == set(_FIELDS) | NO_RULE | PROBED
    assert not set(_FIELDS) & (NO_RULE | PROBED)


def test_base_is_as_published():
    found = standing(base())
    assert found.differences == ()
    banner = "Vaswani et al. 2017: architecture and recipe as published, scale: as published (base)"
    assert found.banner("base") == banner


DEPARTURES = {
    **dict.fromkeys(
        ("brief", "quick", "demo", "laptop"),
        "architecture as published, recipe optimizer.cooldown 0.6 (paper 0.0, 5.3)",
    ),
    "demo-grammar": "architecture as published, recipe optimizer.cooldown 0.3 (paper 0.0, 5.3)",
    "lm": "architecture decoder_only of Liu et al. 2018 (paper an encoder and a decoder, 3.1), "
    "recipe optimizer.cooldown 0.6 (paper 0.0, 5.3)",
    "masked-lm": "architecture encoder_only of Devlin et al. 2018, share 0.3 (paper an encoder and a decoder, 3.1), "
    "recipe optimizer.cooldown 0.6 (paper 0.0, 5.3)",
}


@pytest.mark.parametrize("recipe", all_recipes(), ids=lambda recipe: recipe.name)
def test_how_each_recipe_of_ours_stands(recipe):
    """None departs but those of one text, and those of some minutes, which cannot wait for the rate to fall by itself."""
    found = standing(recipe)
    asked = [departure.name for departure in recipe.departures.architecture]
    assert [d.choice for d in found.departures] == asked + ["optimizer.cooldown"] * (
        recipe.name in DEPARTURES
    )
    published = recipe.name in ("base", "big", "big-en-fr")
    scale = f"as published ({recipe.name})" if published else recipe.name
    assert (found.nearest == recipe.name and not found.differences) == published
    said = DEPARTURES.get(recipe.name, "architecture and recipe as published")
    assert found.banner(recipe.name) == f"Vaswani et al. 2017: {said}, scale: {scale}"


def test_tiny_is_scaled_and_says_where():
    found = {difference.choice: difference for difference in standing(tiny()).differences}
    assert found["model.d_model"] == Finding("model.d_model", "scale", "3.1", 512, 128, "scaled")
    assert str(found["model.d_model"]) == "model.d_model 128 (paper 512, 3.1)"
    assert set(found) == {
        "model.N",
        "model.d_model",
        "model.d_ff",
        "model.h",
        "model.d_k",
        "model.d_v",
        "subwords.vocab_size",
        "batch.source_tokens",
        "batch.target_tokens",
        "optimizer.warmup_steps",
        "optimizer.factor",
        "training.max_steps",
    } - {name for name in ("model.d_k", "model.d_v") if tiny().model.d_k == 64}


@pytest.mark.parametrize(
    ("changes", "scale"),
    [
        (
            ["training.max_steps=10", "search.beam_size=5"],
            "base but for training.max_steps and search.beam_size",
        ),
        (["model.N=1"], "base, changed"),
        (["model.N=1", "name=mine"], "mine"),
        (["optimizer.beta_2=0.999"], "as published (base)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_a_run_is_not_called_base_that_is_not(changes, scale):
    recipe = base().with_changes(changes)
    assert standing(recipe).banner(recipe.name).endswith(f", scale: {scale}")


def test_nor_one_of_a_file_that_says_it_were():
    recipe = Recipe.from_toml('name = "big"\n[model]\nN = 1\n')
    assert standing(recipe).banner(recipe.name).endswith(", scale: base but for model.N")


def test_bpe_dropout_is_a_departure():
    recipe = tiny().with_changes(["subwords.dropout=0.1"])
    found = standing(recipe)
    assert [difference.choice for difference in found.departures] == ["subwords.dropout"]
    assert found.departures[0].verdict == "departure"
    assert found.banner("tiny") == (
        "Vaswani et al. 2017: architecture as published, "
        "recipe subwords.dropout 0.1 (paper 0.0, 5.1), scale: tiny"
    )
    on_base = standing(base().with_changes(["subwords.dropout=0.1"]))
    assert on_base.banner("base").endswith(
        "recipe subwords.dropout 0.1 (paper 0.0, 5.1), scale: as published (base)"
    )


def test_departures_of_the_architecture_are_named_in_the_banner():
    found = standing(tiny().with_changes(["departures.architecture=pre_norm"]))
    assert [difference.level for difference in found.departures] == ["architecture"]
    assert found.banner("tiny") == (
        "Vaswani et al. 2017: architecture pre_norm of Xiong et al. 2020 (paper LayerNorm(x + Sublayer(x)), 3.1), "
        "recipe as published, scale: tiny"
    )
    on_base = standing(base().with_changes(["departures.architecture=pre_norm"]))
    assert on_base.banner("base").endswith("recipe as published, scale: as published (base)")


@pytest.mark.parametrize(
    ("size", "same"),
    [(37_000, True), (36_987, True), (35_151, True), (35_149, False), (8_000, False), (38_851, False)],
)
def test_about_37000_subwords_is_within_five_percent(size, same):
    recipe = base().with_changes([f"subwords.vocab_size={size}"])
    assert (standing(recipe).differences == ()) == same


@pytest.mark.parametrize("field", sorted(NO_RULE))
def test_habits_change_nothing(field):
    value = {"training.precision": "bf16"}.get(field, "7")
    assert standing(base().with_changes([f"{field}={value}"])).differences == ()


@pytest.mark.parametrize("field", sorted(_FIELDS))
def test_every_other_field_is_seen(field):
    section, name = field.split(".")
    value = getattr(getattr(base(), section), name)
    if isinstance(value, tuple):
        other = {"training": "smoothing_over_all", "search": "power_penalty"}.get(name, "pre_norm")
        field = other
    elif isinstance(value, bool):
        other = str(not value).lower()
    elif value is None:
        other = "7"
    elif isinstance(value, float):
        other = str(value / 2 or 0.1)
    else:
        other = str(2 * value)
    found = standing(base().with_changes([f"{section}.{name}={other}"])).differences
    assert field in {difference.choice for difference in found}


def test_a_run_is_compared_with_the_model_it_is_nearest_to():
    changed = big().with_changes(["training.eps_ls=0.2"])
    found = standing(changed)
    assert found.nearest == "big"
    assert [difference.choice for difference in found.differences] == ["training.eps_ls"]
    assert found.banner("mine").endswith("scale: mine")


@pytest.mark.parametrize(
    "field",
    ["optimizer.beta_1", "optimizer.beta_2", "optimizer.epsilon", "search.max_extra", "subwords.joint"],
)
def test_a_number_the_paper_never_changes_is_a_rule(field):
    value = {"search.max_extra": "100", "subwords.joint": "false"}.get(field, "0.5")
    found = standing(base().with_changes([f"{field}={value}"]))
    assert [(f.choice, f.level, f.verdict) for f in found.differences] == [(field, "recipe", "departure")]
    assert found.banner("base").endswith("scale: as published (base)")


def test_what_is_measured_counts_and_not_what_the_recipe_says():
    lying = standing(base(), measured={"optimizer.beta_2": 0.997, "search.beam_size": 4})
    assert [str(f) for f in lying.departures] == ["optimizer.beta_2 0.997 (paper 0.98, 5.3)"]


def test_code_that_does_not_do_what_it_is_told_departs_even_in_a_matter_of_scale():
    found = standing(tiny(), measured={"optimizer.factor": 1.0})
    assert [(f.choice, f.level) for f in found.departures] == [("optimizer.factor", "recipe")]
    assert "recipe optimizer.factor 1.0 (paper 1.0, 5.3)" in found.banner("tiny")


def test_rules_found_elsewhere_stand_before_the_numbers_of_their_level():
    place = Finding("norm place", "architecture", "3.1", "after the sum", "before the sub-layer", "departure")
    form = Finding("optimizer", "recipe", "5.3", "Adam", "Adam", "as published")
    found = standing(base(), rules=(form, place))
    assert [f.choice for f in found.findings][:3] == ["norm place", "optimizer", "optimizer.beta_1"]
    assert found.banner("base") == (
        "Vaswani et al. 2017: architecture norm place before the sub-layer (paper after the sum, 3.1), recipe as "
        "published, scale: as published (base)"
    )
    assert found == Standing("base", found.findings)
