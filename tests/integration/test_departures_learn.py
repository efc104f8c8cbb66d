"""A model with each departure learns short sentences of the embedded grammar: combinations never seen come out right.

The limit is in updates, not minutes: what is learned must not depend on what else the machine is doing. Two models at a
time have a thread each. The paper's own parts are beside the departures: where they do not learn either, it is the
setting that teaches nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch
from command_line import Ended, finish, start, write_lines
from departing import EACH, FEWER

from dragoman.machine import fast_precision
from dragoman.recipe import DepartureSection
from dragoman.recipes.named import demo_grammar
from dragoman.text.grammar.generate import generate
from dragoman.text.grammar.held_out import SPLITS
from dragoman.variants.departures import KINDS, Departure

# All limits of this test. Each model is one to three minutes of one core.
UPDATES = 1_500
LONGEST_WORDS = (
    7  # of a sentence, marks included: three of ten sentences are as short, of unseen combinations two
)
SENTENCES = {"train": 300_000, "dev": 1_000, "test": 2_000}  # of which the short ones are taken
WANTED_EXACT = 90.0
PATIENCE_SECONDS = 1_800.0

MODELS: dict[str, tuple[Departure, ...]] = {"the paper": (), **{name: EACH[name] for name in FEWER}}
CHANGES = (
    "model.N=2",
    "batch.source_tokens=1024",
    "batch.target_tokens=1024",
    "batch.tokens_at_once=1024",
    "optimizer.warmup_steps=300",
    "optimizer.factor=0.7",
    "optimizer.cooldown=0.6",
    f"training.max_steps={UPDATES}",
    "training.max_minutes=none",
    "training.checkpoint_minutes=60",
    "training.checkpoint_steps=50",
    "training.validate_steps=1000",
    "training.validation_sentences=0",
    f"training.precision={fast_precision(torch.device('cpu'))}",
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(20 * PATIENCE_SECONDS)]


def command(*arguments: object) -> Ended:
    """A command of its own with one thread, without the checks of shapes that are on in this process."""
    result = finish(start(*arguments), patience_seconds=PATIENCE_SECONDS)
    assert result.code == 0, result.err
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The prepared sentences and the test set."""
    folder = tmp_path_factory.mktemp("grammar")
    for split in SPLITS:
        pairs = generate(SENTENCES[split], split=split)
        short = [
            pair for pair in pairs if max(len(pair.source_words), len(pair.target_words)) <= LONGEST_WORDS
        ]
        write_lines(folder / f"{split}.en", [pair.source for pair in short])
        write_lines(folder / f"{split}.de", [pair.target for pair in short])
    command(
        *("prepare", folder / "train.en", folder / "train.de", "--out", folder / "prepared"),
        *("--dev-source", folder / "dev.en", "--dev-target", folder / "dev.de"),
        *("--vocab-size", demo_grammar().subwords.vocab_size),
    )
    return folder


def exact_match_of(name: str, folder: Path) -> float:
    """Trains a model and scores it on the test set, translated greedily."""
    departures = DepartureSection(architecture=MODELS[name])
    recipe = demo_grammar().with_changes(CHANGES).model_copy(update={"departures": departures})
    (folder / f"{name}.toml").write_text(recipe.to_toml(), encoding="utf-8")
    command("train", folder / "prepared", "--out", folder / name, "--recipe", folder / f"{name}.toml")
    scored = command(
        *("evaluate", folder / name, folder / "test.en", folder / "test.de", "--beam-size", 1, "--json")
    )
    scores = {score["name"]: score["value"] for score in json.loads(scored.text)}
    return float(scores["exact match"])


@pytest.fixture(scope="module")
def scores(request, folder) -> Iterator[dict[str, Future[float]]]:
    """Of each model that was asked for, two at a time, in the order of their tests."""
    tests = [item for item in request.session.items if item.parent is request.node]
    asked = [test.callspec.params["name"] for test in tests if hasattr(test, "callspec")]
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        yield {name: pool.submit(partial(exact_match_of, name, folder)) for name in asked}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", MODELS)
def test_unseen_combinations_come_out_right(scores, name):
    assert scores[name].result() >= WANTED_EXACT


def test_every_departure_there_is_learns_by_itself():
    alone = {made[0].name for made in MODELS.values() if len(made) == 1}
    assert alone == set(KINDS) - {"decoder_only", "encoder_only"}  # which learn in `test_one_text_learns`
