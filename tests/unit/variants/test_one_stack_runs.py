"""Whole runs of models of one text: trained, stopped and resumed, stored, averaged, kept apart from translators."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from departing import ONE_STACK
from tiny_runs import (
    last_checkpoint,
    logged,
    make_task,
    state_digests,
    terminate_at,
    tiny_facts,
    tiny_recipe,
    write_random_bundle,
)

from dragoman.bundle import open_bundle, read_manifest
from dragoman.errors import CheckpointError, ConfigError
from dragoman.pipeline import DEV_EPOCH, _dev, average, train
from dragoman.recipe import DepartureSection, Recipe
from dragoman.recipes.choose import choose_language_model
from dragoman.text.subwords import Subwords
from dragoman.training.averaging import average_checkpoints
from dragoman.translator import Translator
from dragoman.variants.training_rules import Clipping, MovingAverage, SmoothingWithoutPadding

pytestmark = pytest.mark.usefixtures("quick_runs")

FEWER = ["decoder_only", "encoder_only", "decoder_only of today"]


def recipe_with(name: str, *changes: str) -> Recipe:
    sizes = ("model.h=4", "model.d_k=6", "model.d_v=4", "training.max_steps=6", "training.checkpoint_steps=2")
    departures = DepartureSection(architecture=ONE_STACK[name])
    return tiny_recipe(*sizes, *changes).model_copy(update={"departures": departures})


@pytest.fixture(scope="module", params=FEWER)
def run(request, one_text, tmp_path_factory) -> Path:
    """A finished run of six updates; not to be changed."""
    out = tmp_path_factory.mktemp("one-stack") / "run"
    assert train(one_text, out, recipe=recipe_with(request.param)).reason == "steps"
    return out


def name_of(run: Path) -> str:
    found = Recipe.from_file(run / "recipe.toml").departures.architecture
    return next(name for name, made in ONE_STACK.items() if made == found)


def test_a_bundle_says_what_it_is_and_is_built_again(run):
    departures = ONE_STACK[name_of(run)]
    stack = departures[0]
    manifest = read_manifest(run / "model")
    assert f"{stack.name} of {stack.source}" in manifest.standing
    assert any(text.startswith(f"{stack.name} of") for text in manifest.departures)
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    kind, verb = ("Language", "generate") if stack.name == "decoder_only" else ("Masked language", "fill")
    assert card.startswith(f"# {kind} model, en\n")
    assert f"dragoman {verb} MODEL" in card
    assert "dragoman evaluate MODEL TEXT" in card
    assert "* training lines: 160" in card
    assert "Transformer of 1 layers" in card
    opened = open_bundle(run / "model")
    assert opened.facts.stack == stack
    weights, model = opened.weights(), opened.model()
    assert all(torch.equal(parameter, weights[name]) for name, parameter in model.named_parameters())
    assert not any("cross_attention" in name for name in weights)


def test_a_run_that_is_stopped_and_goes_on_is_the_run_that_was_not(run, one_text, tmp_path):
    """What is hidden in an epoch is hidden again: nothing of it is saved."""
    recipe = recipe_with(name_of(run))
    out = tmp_path / "stopped"
    assert train(one_text, out, recipe=recipe, on_event=terminate_at(3)).interrupted
    assert train(one_text, out, resume=True).reason == "steps"
    assert state_digests(last_checkpoint(out)) == state_digests(last_checkpoint(run))
    losses = [{event["step"]: event["loss"] for event in logged(where, "stepped")} for where in (out, run)]
    assert losses[0] == losses[1]
    dev = [[event["loss"] for event in logged(where, "validated")][-1] for where in (out, run)]
    assert dev[0] == dev[1]


def test_tokens_are_counted_once(run):
    for event in logged(run, "stepped"):
        if name_of(run) == "encoder_only":
            assert 0 < event["target_tokens"] < event["source_tokens"] <= 100
        else:
            assert (event["source_tokens"], 0 < event["target_tokens"] <= 100) == (0, True)


def test_average_of_checkpoints(run, tmp_path):
    average(run, tmp_path / "mean", last=2)
    mean, own = open_bundle(tmp_path / "mean"), open_bundle(run / "model")
    assert mean.facts.stack == own.facts.stack
    assert all(torch.equal(mean.weights()[name], value) for name, value in own.weights().items())


@pytest.mark.parametrize("name", sorted(ONE_STACK))
def test_every_combination_learns(name, one_text, tmp_path):
    recipe = recipe_with(
        name, "training.max_steps=40", "training.checkpoint_steps=100", "training.eps_ls=0.0"
    )
    train(one_text, tmp_path / "run", recipe=recipe)
    losses = [event["nll"] for event in logged(tmp_path / "run", "stepped")]
    assert sum(losses[-8:]) < 0.9 * sum(losses[:8])


@pytest.mark.parametrize("stack", ["decoder_only", "encoder_only"])
def test_departures_of_training_go_with_them(stack, one_text, tmp_path):
    """Another smoothing, a moving average and clipping, in a run that is stopped and goes on."""
    section = DepartureSection(
        architecture=ONE_STACK[stack],
        training=(SmoothingWithoutPadding(), MovingAverage(share=0.3), Clipping(norm=0.5)),
    )
    recipe = recipe_with(stack).model_copy(update={"departures": section})
    for out, watch in (("whole", None), ("stopped", terminate_at(3))):
        train(one_text, tmp_path / out, recipe=recipe, on_event=watch)
    assert train(one_text, tmp_path / "stopped", resume=True).reason == "steps"
    digests = [state_digests(last_checkpoint(tmp_path / out)) for out in ("whole", "stopped")]
    assert digests[0] == digests[1]
    assert "moving_average" in open_bundle(tmp_path / "whole/model").manifest.standing


def test_a_batch_in_pieces_is_the_batch(one_text, tmp_path):
    """The budget of a piece may cut a batch of hidden tokens anywhere between two texts."""
    plain = ("model.P_drop=0.0", "training.max_steps=3", "training.checkpoint_steps=100")
    for name in ("decoder_only", "encoder_only"):
        for pieces in (100, 30):
            recipe = recipe_with(name, *plain, f"batch.tokens_at_once={pieces}")
            train(one_text, tmp_path / f"{name}-{pieces}", recipe=recipe)
        losses = [
            [event["loss"] for event in logged(tmp_path / f"{name}-{pieces}", "stepped")]
            for pieces in (100, 30)
        ]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_the_dev_set_is_hidden_alike_each_time_and_not_as_in_training(one_text):
    recipe = recipe_with("encoder_only")
    batches = _dev(one_text, recipe)
    first, again = list(batches()), list(batches())
    assert all(torch.equal(a.source_ids, b.source_ids) for a, b in zip(first, again, strict=True))
    assert sum(batch.target_tokens for batch in first) > 0
    assert DEV_EPOCH > 10**9


@pytest.mark.parametrize(
    ("corpus_name", "stack", "said"),
    [
        (
            "one_text",
            None,
            "the corpus is of one text, and the model of the recipe is of both stacks, for pairs",
        ),
        (
            "small_corpus",
            "decoder_only",
            "the corpus is of pairs, and the model of the recipe is of decoder_only",
        ),
        (
            "small_corpus",
            "encoder_only",
            "the corpus is of pairs, and the model of the recipe is of encoder_only",
        ),
    ],
)
def test_a_corpus_and_a_model_that_do_not_go_together_are_refused(
    corpus_name, stack, said, request, tmp_path
):
    corpus = request.getfixturevalue(corpus_name)
    recipe = tiny_recipe() if stack is None else recipe_with(stack)
    with pytest.raises(ConfigError) as caught:
        train(corpus, tmp_path / "run", recipe=recipe)
    assert said in caught.value.what
    assert caught.value.cure
    assert not (tmp_path / "run").exists()


def test_the_recipe_where_none_is_asked_for(one_text):
    choice = choose_language_model(one_text, torch.device("cpu"), max_minutes=3.0)
    assert choice.recipe.name == "lm"
    assert choice.recipe.training.max_minutes == 3.0
    assert "160 lines" in choice.reason
    assert choice.expected_hours == pytest.approx(0.05)


def test_a_translator_is_not_made_of_one_stack(run):
    with pytest.raises(ConfigError, match="translates nothing") as caught:
        Translator.load(run)
    assert ("dragoman fill" if name_of(run) == "encoder_only" else "dragoman generate") in caught.value.cure


def test_models_of_other_stacks_are_not_averaged(run, one_text, tmp_path):
    other = "decoder_only" if name_of(run) != "decoder_only" else "encoder_only"
    train(one_text, tmp_path / "other", recipe=recipe_with(other, "training.max_steps=2"))
    with pytest.raises(CheckpointError, match="have different departures"):
        average_checkpoints([run / "model", tmp_path / "other/model"], tmp_path / "mean")


def test_bpe_dropout_cuts_both_sides_alike(one_text, tmp_path):
    recipe = recipe_with("decoder_only", "subwords.dropout=0.5", "training.max_steps=2")
    assert train(one_text, tmp_path / "run", recipe=recipe).reason == "steps"


def test_what_a_pair_needs_is_as_it_was(small_corpus, tmp_path):
    """The models of two texts know nothing of this."""
    assert write_random_bundle(tmp_path / "m", tiny_facts(small_corpus)).is_dir()
    batch, _ = next(make_task(small_corpus, tmp_path, tiny_recipe()).loader.batches())
    assert batch.source_tokens == int((batch.source_ids != Subwords.PAD_ID).sum())
    assert open_bundle(tmp_path / "m").facts.stack is None
