"""I15: a run that is stopped, however and wherever, and goes on is the run that was never stopped, to the bit.

An epoch of the corpus is about five batches, so that fourteen updates end inside the third.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_runs import (
    Killed,
    kill_at_save,
    last_checkpoint,
    logged,
    state_digests,
    terminate_at,
    tiny_recipe,
)

from dragoman.pipeline import train

pytestmark = pytest.mark.usefixtures("quick_runs")

MAX_STEPS = 14
SAME = ("step", "epoch", "loss", "nll", "rate", "gradient_norm", "source_tokens", "target_tokens")
KINDS: dict[str, tuple[str, ...]] = {
    "plain": (),
    "pieces": ("batch.tokens_at_once=40", "model.P_drop=0.0"),
    "pieces and dropout": ("batch.tokens_at_once=40", "model.P_drop=0.3"),
    "bf16": ("training.precision=bf16",),
    "BPE-dropout": ("subwords.dropout=0.3",),
    "cooldown": ("optimizer.cooldown=0.6",),
    "validation with translation": ("training.validate_steps=7", "training.validation_sentences=2"),
}


def recipe_of(kind: str):
    common = (
        f"training.max_steps={MAX_STEPS}",
        "training.checkpoint_steps=4",
        "training.keep_checkpoints=3",
        "search.average_checkpoints=3",
    )
    return tiny_recipe(*common, *KINDS[kind])


def steps_of(run: Path) -> dict[int, dict[str, Any]]:
    """What was logged of each update; of one done twice, the last time."""
    return {event["step"]: {name: event[name] for name in SAME} for event in logged(run, "stepped")}


def validations_of(run: Path) -> dict[int, dict[str, Any]]:
    return {
        event["step"]: {name: event[name] for name in ("loss", "perplexity", "bleu", "best")}
        for event in logged(run, "validated")
    }


def assert_same_run(run: Path, uninterrupted: Path) -> None:
    assert steps_of(run) == steps_of(uninterrupted)
    assert validations_of(run) == validations_of(uninterrupted)
    one, other = last_checkpoint(run), last_checkpoint(uninterrupted)
    assert state_digests(one) == state_digests(other)
    still = {"seconds": 0.0, "due_seconds": 0.0}
    assert one.place.model_copy(update=still) == other.place.model_copy(update=still)
    for name in ("model.safetensors", "recipe.toml", "config.json", "subwords.model"):
        assert (run / "model" / name).read_bytes() == (uninterrupted / "model" / name).read_bytes(), name


@pytest.fixture(scope="module")
def uninterrupted(small_corpus, tmp_path_factory) -> dict[str, Path]:
    """One straight run of each kind, made when it is first asked for."""

    class Runs(dict[str, Path]):
        def __missing__(self, kind: str) -> Path:
            run = tmp_path_factory.mktemp("straight") / "run"
            assert train(small_corpus, run, recipe=recipe_of(kind)).reason == "steps"
            self[kind] = run
            return run

    return Runs()


def stop_and_go_on(corpus, run: Path, kind: str, stops: list[tuple[str, int]]) -> None:
    """Each stop is a signal at an update, or a kill at the first save not before it."""
    resume = False
    for how, step in [*stops, ("end", MAX_STEPS)]:
        watch = {"signal": terminate_at, "kill": kill_at_save}.get(how)
        done = None
        try:
            done = train(
                corpus,
                run,
                recipe=None if resume else recipe_of(kind),
                resume=resume,
                on_event=None if watch is None else watch(step),
            )
        except Killed:
            assert how == "kill"
        if done is not None:
            assert done.interrupted == (how == "signal")
            assert (done.model is None) == (how == "signal")
        resume = True


def saved_from(step: int) -> int:
    """The first update from this one on after which a checkpoint is written."""
    return min(MAX_STEPS, -(-step // 4) * 4)


@pytest.mark.parametrize("how", ["signal", "kill"])
@pytest.mark.parametrize("step", range(1, MAX_STEPS))
def test_each_stop(small_corpus, uninterrupted, tmp_path, how, step):
    stop_and_go_on(small_corpus, tmp_path / "run", "plain", [(how, step)])
    assert_same_run(tmp_path / "run", uninterrupted["plain"])


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stops=st.lists(
        st.tuples(st.sampled_from(["signal", "kill"]), st.integers(1, MAX_STEPS - 1)), min_size=1, max_size=2
    )
)
def test_any_stops(small_corpus, uninterrupted, tmp_path_factory, stops):
    one, *others = sorted(stops, key=lambda stop: stop[1])
    reached = one[1] if one[0] == "signal" else saved_from(one[1])
    stops = [one, *(stop for stop in others if stop[1] > reached)]
    run = tmp_path_factory.mktemp("stopped") / "run"
    stop_and_go_on(small_corpus, run, "plain", stops)
    assert_same_run(run, uninterrupted["plain"])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "plain"])
def test_any_kind_of_run(small_corpus, uninterrupted, tmp_path, kind):
    """Stopped inside an epoch by a signal, and killed at a save."""
    stop_and_go_on(small_corpus, tmp_path / "run", kind, [("signal", 3), ("kill", 8)])
    assert_same_run(tmp_path / "run", uninterrupted[kind])


def test_the_kinds_are_different_runs(uninterrupted):
    """Else the tests above would compare what cannot differ."""
    losses = {kind: steps_of(uninterrupted[kind])[MAX_STEPS]["loss"] for kind in KINDS}
    same = losses.pop("validation with translation")
    assert same == losses["plain"]
    assert len(set(losses.values())) == len(losses)


def test_batches_of_every_epoch_are_seen(small_corpus, uninterrupted):
    epochs = [event["epoch"] for event in logged(uninterrupted["plain"], "stepped")]
    assert epochs == sorted(epochs)
    assert set(epochs) == {0, 1, 2}
