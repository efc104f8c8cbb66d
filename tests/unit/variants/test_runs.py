"""Whole runs of models with departures: trained, stopped and gone on with, stored, averaged, translating every way."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from departing import EACH, FEWER, SECTIONS, SERVED
from tiny_runs import (
    last_checkpoint,
    logged,
    make_runs_quick,
    make_task,
    state_digests,
    terminate_at,
    tiny_recipe,
)

from dragoman.bundle import open_bundle, read_manifest
from dragoman.data.batches import Cursor
from dragoman.errors import CheckpointError, ConfigError
from dragoman.pipeline import average, train
from dragoman.recipe import Recipe
from dragoman.training.averaging import average_checkpoints
from dragoman.training.step import optimizer_for, update
from dragoman.training.trainer import Trainer
from dragoman.translator import Translator
from dragoman.variants.departures import KINDS
from dragoman.variants.search_rules import SEARCH_KINDS
from dragoman.variants.training_rules import TRAINING_KINDS

pytestmark = pytest.mark.usefixtures("quick_runs")

ALL_KINDS = {*KINDS, *TRAINING_KINDS, *SEARCH_KINDS}
UNITS = ["one two three", "twelve", "", "six seven eight nine ten"]


def recipe_with(name: str, *changes: str) -> Recipe:
    """Sizes and limits that every departure can be had with."""
    sizes = ("model.h=4", "model.d_k=6", "model.d_v=4", "training.max_steps=6", "training.checkpoint_steps=2")
    short = "optimizer.warmup_steps=3"
    return Recipe(**{**dict(tiny_recipe(*sizes, short, *changes)), "departures": SECTIONS[name]})


@pytest.fixture(scope="module", params=SECTIONS)
def run(request, small_corpus, tmp_path_factory) -> Path:
    """A finished run of six updates with these departures; not to be changed."""
    out = tmp_path_factory.mktemp("departing") / "run"
    with pytest.MonkeyPatch.context() as patch:
        make_runs_quick(patch)
        assert train(small_corpus, out, recipe=recipe_with(request.param)).reason == "steps"
    return out


def name_of(run: Path) -> str:
    found = Recipe.from_file(run / "recipe.toml").departures
    return next(name for name, made in SECTIONS.items() if made == found)


def test_a_bundle_records_and_restores_them(run):
    departures = SECTIONS[name_of(run)].all
    manifest = read_manifest(run / "model")
    told = [text.split(" ")[0] for text in manifest.departures]
    assert [name for name in told if name in ALL_KINDS] == [d.name for d in departures]
    assert len(told) > len(departures), "what is asked for is also measured"
    assert all(f"{d.name} of {d.source}" in manifest.standing for d in departures)
    card = (run / "model" / "README.md").read_text(encoding="utf-8")
    assert all(text in card for text in manifest.departures)
    opened = open_bundle(run / "model")
    assert opened.facts.recipe.departures.all == departures
    weights, model = opened.weights(), opened.model()
    assert all(torch.equal(parameter, weights[name]) for name, parameter in model.named_parameters())


def test_a_run_that_is_stopped_and_goes_on_is_the_run_that_was_not(run, small_corpus, tmp_path):
    recipe = recipe_with(name_of(run))
    out = tmp_path / "stopped"
    assert train(small_corpus, out, recipe=recipe, on_event=terminate_at(3)).interrupted
    assert train(small_corpus, out, resume=True).reason == "steps"
    assert state_digests(last_checkpoint(out)) == state_digests(last_checkpoint(run))
    losses = [{event["step"]: event["loss"] for event in logged(where, "stepped")} for where in (out, run)]
    assert losses[0] == losses[1]


def test_average_of_checkpoints(run, tmp_path):
    average(run, tmp_path / "mean", last=2)
    mean, own = open_bundle(tmp_path / "mean"), open_bundle(run / "model")
    assert mean.facts.recipe.departures == own.facts.recipe.departures
    assert all(torch.equal(mean.weights()[name], value) for name, value in own.weights().items())


def test_translating_by_beam_greedily_by_sampling_and_what_is_reported(run):
    translator = Translator.load(run)
    for beam_size in (1, 4):
        together = translator.translate(UNITS, beam_size=beam_size, max_extra=3)
        alone = [translator.translate([unit], beam_size=beam_size, max_extra=3)[0] for unit in UNITS]
        assert together == alone
        complete = [t for t in together if t.text and not t.truncated]
        scores = translator.score_pieces([t.source for t in complete], [t.pieces for t in complete])
        assert scores == pytest.approx([t.score for t in complete], abs=1e-4)
    drawn = translator.sample(UNITS, seed=3, max_extra=3)
    assert drawn == translator.sample(UNITS, seed=3, max_extra=3)
    assert [t.source for t in drawn] == UNITS


def test_number_formats_of_translating(run):
    """The kernels' own formats are not for other parts: bf16 is PyTorch's, int8 is refused, auto is fp32."""
    if name_of(run) not in EACH or name_of(run) in SERVED:
        return
    assert Translator.load(run, precision="bf16").model.dtype == torch.bfloat16
    auto = Translator.load(run, precision="auto")
    assert (auto.model.dtype, auto.products) == (torch.float32, "fp32")
    with pytest.raises(ConfigError, match="8-bit numbers are for the paper's parts") as caught:
        Translator.load(run, precision="int8")
    assert EACH[name_of(run)][0].name in str(caught.value)


@pytest.mark.parametrize("name", FEWER)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_loss_falls(name, precision, small_corpus, tmp_path):
    recipe = recipe_with(name, f"training.precision={precision}", "optimizer.warmup_steps=20")
    task = make_task(small_corpus, tmp_path, recipe)
    model = task.facts.build(1)
    shape = {"h": 4, "d_k": 6, "d_v": 4}
    assert shape == {key: getattr(model.config, key) for key in shape}
    optimizer, batches = optimizer_for(model, recipe), task.loader.batches(Cursor())
    losses = [update(model, optimizer, next(batches)[0], recipe, step).loss for step in range(1, 31)]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_a_run_cannot_go_on_with_others(small_corpus, tmp_path):
    train(small_corpus, tmp_path / "run", recipe=recipe_with("pre_norm"))
    with pytest.raises(
        ConfigError, match="departures.architecture cannot change when a run goes on"
    ) as caught:
        train(small_corpus, tmp_path / "run", resume=True, changes=["departures.architecture=none"])
    assert "it is pre_norm, not none" in str(caught.value)
    recipe = recipe_with("pre_norm").with_changes(["departures.architecture=none"])
    with pytest.raises(CheckpointError, match="another architecture"):
        Trainer(
            make_task(small_corpus, tmp_path, recipe),
            recipe,
            lambda _event: None,
            resume=last_checkpoint(tmp_path / "run"),
        )


def test_a_run_that_goes_on_keeps_its_rules(small_corpus, tmp_path):
    train(small_corpus, tmp_path / "run", recipe=recipe_with("linear_decay"))
    for change, said in (
        ("departures.training=cosine_decay", "it is linear_decay\\(to=0.0\\), not cosine_decay"),
        ("training.max_steps=8", "the rate falls until update 6"),
    ):
        with pytest.raises(ConfigError, match=said):
            train(small_corpus, tmp_path / "run", resume=True, changes=[change])
    recipe = recipe_with("cosine_decay")
    with pytest.raises(CheckpointError, match="of other rules"):
        Trainer(
            make_task(small_corpus, tmp_path, recipe),
            recipe,
            lambda _event: None,
            resume=last_checkpoint(tmp_path / "run"),
        )


def test_models_of_different_departures_cannot_be_averaged(small_corpus, tmp_path):
    for name, steps in (("pre_norm", 2), ("none", 4)):
        made = recipe_with("pre_norm", f"training.max_steps={steps}")
        made = made if name == "pre_norm" else made.with_changes(["departures.architecture=none"])
        train(small_corpus, tmp_path / name, recipe=made)
    paths = [tmp_path / "pre_norm/checkpoints/step-00000002", tmp_path / "none/checkpoints/step-00000004"]
    with pytest.raises(CheckpointError, match="have different departures"):
        average_checkpoints(paths, tmp_path / "mean")
