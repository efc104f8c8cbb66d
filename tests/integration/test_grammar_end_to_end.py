"""The whole path on the embedded grammar, by the commands a person types: sentences never seen must come out right.

The limit is in updates, not minutes: what is learned must not depend on what else the machine is doing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
from command_line import Ended, finish, start

from dragoman.demo import GRAMMAR_PAIRS
from dragoman.machine import fast_precision
from dragoman.recipes.named import demo_grammar
from dragoman.text.grammar.generate import write_corpus

# All limits of this test. Some minutes of two cores, most of it training.
UPDATES = 3_000
CHECKPOINTS = 5  # averaged, one every CHECKPOINT_STEPS
CHECKPOINT_STEPS = 100
TEST_PAIRS = 500
VOCAB_SIZE = demo_grammar().subwords.vocab_size
WANTED_EXACT = 95.0
PATIENCE_SECONDS = 900.0

pytestmark = [pytest.mark.alone, pytest.mark.timeout(2 * PATIENCE_SECONDS)]

CHANGES = (
    f"training.max_steps={UPDATES}",
    "training.max_minutes=none",
    f"training.checkpoint_steps={CHECKPOINT_STEPS}",
    f"training.keep_checkpoints={CHECKPOINTS}",
    f"search.average_checkpoints={CHECKPOINTS}",
    "training.validate_steps=1000",
    "training.validation_sentences=0",
)


def command(*arguments: object) -> Ended:
    """A command of its own, without the checks of shapes that are on in this process."""
    threads = str(min(2, os.cpu_count() or 1))
    process = start(*arguments, environment={"OMP_NUM_THREADS": threads})
    result = finish(process, patience_seconds=PATIENCE_SECONDS)
    assert result.code == 0, result.err
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A trained run and its data."""
    folder = tmp_path_factory.mktemp("grammar")
    write_corpus(folder, train=GRAMMAR_PAIRS, dev=TEST_PAIRS, test=TEST_PAIRS)
    command(
        *("prepare", folder / "train.en", folder / "train.de", "--out", folder / "prepared"),
        *("--dev-source", folder / "dev.en", "--dev-target", folder / "dev.de", "--vocab-size", VOCAB_SIZE),
    )
    changes = [part for change in CHANGES for part in ("--set", change)]
    precision = fast_precision(torch.device("cpu"))
    command(
        *("train", folder / "prepared", "--out", folder / "run", "--recipe", "demo-grammar"),
        *("--precision", precision, *changes),
    )
    command("average", folder / "run", "--last", CHECKPOINTS, "--out", folder / "averaged")
    command("translate", folder / "averaged", folder / "test.en", "--out", folder / "out.de")
    return folder


def test_unseen_combinations_come_out_right(folder):
    result = command("evaluate", folder / "out.de", folder / "test.de", "--json")
    scores = {score["name"]: score["value"] for score in json.loads(result.text)}
    assert scores["exact match"] >= WANTED_EXACT, scores


def test_every_line_has_its_translation(folder):
    assert (folder / "out.de").read_bytes().count(b"\n") == TEST_PAIRS
    assert all((folder / "out.de").read_bytes().split(b"\n")[:-1])


def test_the_runs_own_model_is_the_same_average(folder):
    own, averaged = (folder / name / "model.safetensors" for name in ("run/model", "averaged"))
    assert own.read_bytes() == averaged.read_bytes()
