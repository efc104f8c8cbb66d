"""A model with each departure learns the embedded grammar: sentences never seen come out right.

The limit is in updates, not minutes: what is learned must not depend on what else the machine is doing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from command_line import Ended, finish, start
from departing import EACH, FEWER

from dragoman.demo import GRAMMAR_PAIRS
from dragoman.machine import fast_precision
from dragoman.recipe import DepartureSection
from dragoman.recipes.named import demo_grammar
from dragoman.text.grammar.generate import write_corpus

UPDATES = 3_000
TEST_PAIRS = 500
WANTED_EXACT = 90.0
PATIENCE_SECONDS = 1_800.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * PATIENCE_SECONDS)]

CHANGES = (
    f"training.max_steps={UPDATES}",
    "training.max_minutes=none",
    "training.checkpoint_steps=100",
    "training.validate_steps=1000",
    "training.validation_sentences=0",
    f"training.precision={fast_precision(torch.device('cpu'))}",
)


def command(*arguments: object) -> Ended:
    """A command of its own, without the checks of shapes that are on in this process."""
    process = start(*arguments, environment={"OMP_NUM_THREADS": str(min(2, os.cpu_count() or 1))})
    result = finish(process, patience_seconds=PATIENCE_SECONDS)
    assert result.code == 0, result.err
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The prepared grammar and its test set."""
    folder = tmp_path_factory.mktemp("grammar")
    write_corpus(folder, train=GRAMMAR_PAIRS, dev=TEST_PAIRS, test=TEST_PAIRS)
    command(
        *("prepare", folder / "train.en", folder / "train.de", "--out", folder / "prepared"),
        *("--dev-source", folder / "dev.en", "--dev-target", folder / "dev.de"),
        *("--vocab-size", demo_grammar().subwords.vocab_size),
    )
    return folder


@pytest.mark.parametrize("name", FEWER)
def test_unseen_combinations_come_out_right(folder, name):
    departures = DepartureSection(architecture=EACH[name])
    recipe = demo_grammar().with_changes(CHANGES).model_copy(update={"departures": departures})
    (folder / f"{name}.toml").write_text(recipe.to_toml(), encoding="utf-8")
    command(
        *("train", folder / "prepared", "--out", folder / name, "--recipe", folder / f"{name}.toml"),
    )
    scored = command("evaluate", folder / name, folder / "test.en", folder / "test.de", "--json")
    scores = {score["name"]: score["value"] for score in json.loads(scored.text)}
    assert scores["exact match"] >= WANTED_EXACT, scores
