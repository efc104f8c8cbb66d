"""The whole path on the embedded grammar, by the commands a person types: sentences never seen must come out right.

The limit is in updates, not minutes: what is learned must not depend on what else the machine is doing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
import torch
from command_line import Ended, finish, start

from dragoman.demo import GRAMMAR_PAIRS
from dragoman.machine import fast_precision
from dragoman.recipes.named import demo_grammar
from dragoman.text.grammar.generate import write_corpus

# All limits of this test: two minutes of one core, most of it training, and many times that in the slow ones.
CHECKPOINTS = 5  # averaged
TEST_PAIRS = 500
VOCAB_SIZE = demo_grammar().subwords.vocab_size
PATIENCE_SECONDS = 1_800.0

pytestmark = pytest.mark.timeout(2 * PATIENCE_SECONDS)


@dataclass(frozen=True)
class Run:
    """A run, and the share of whole sentences that must come out right after it (less than it reached as written).

    Attributes:
        updates: its length.
        wanted_exact: in per cent.
        changed: sizes that are not the recipe's.
    """

    updates: int
    wanted_exact: float
    changed: tuple[str, ...] = ()

    def changes(self) -> tuple[str, ...]:
        return (
            *self.changed,
            f"training.max_steps={self.updates}",
            "training.max_minutes=none",
            f"training.checkpoint_steps={self.updates // 30}",
            f"training.keep_checkpoints={CHECKPOINTS}",
            f"search.average_checkpoints={CHECKPOINTS}",
            f"training.validate_steps={self.updates}",
            "training.validation_sentences=0",
        )


SMALLER = (
    *("model.N=2", "model.d_model=96", "model.d_ff=192"),
    *("batch.source_tokens=768", "batch.target_tokens=768", "batch.tokens_at_once=768"),
)
RUNS = [
    Run(1_500, wanted_exact=55.0, changed=SMALLER),  # 69 in fp32 on a processor with AVX2
    pytest.param(Run(1_500, wanted_exact=75.0), marks=pytest.mark.slow),
    pytest.param(Run(3_000, wanted_exact=95.0), marks=pytest.mark.slow),
]


def command(*arguments: object) -> Ended:
    """A command of its own, without the checks of shapes that are on in this process."""
    process = start(*arguments, environment={"OMP_NUM_THREADS": "1"})
    result = finish(process, patience_seconds=PATIENCE_SECONDS)
    assert result.code == 0, result.err
    return result


@pytest.mark.parametrize(
    "run_of", RUNS, ids=lambda run: f"{run.updates} updates" + (", smaller" if run.changed else "")
)
def test_unseen_combinations_come_out_right(run_of, tmp_path):
    write_corpus(tmp_path, train=GRAMMAR_PAIRS, dev=TEST_PAIRS, test=TEST_PAIRS)
    texts = {
        f"{part}.{side}": tmp_path / f"{part}.{side}"
        for part in ("train", "dev", "test")
        for side in ("en", "de")
    }
    prepared, run, averaged, out = (tmp_path / name for name in ("prepared", "run", "averaged", "out.de"))
    command(
        *("prepare", texts["train.en"], texts["train.de"], "--out", prepared, "--vocab-size", VOCAB_SIZE),
        *("--dev-source", texts["dev.en"], "--dev-target", texts["dev.de"]),
    )
    changes = [part for change in run_of.changes() for part in ("--set", change)]
    precision = fast_precision(torch.device("cpu"))
    command(
        *("train", prepared, "--out", run, "--recipe", "demo-grammar", "--precision", precision, *changes)
    )
    command("average", run, "--last", CHECKPOINTS, "--out", averaged)
    own, again = (folder / "model.safetensors" for folder in (run / "model", averaged))
    assert own.read_bytes() == again.read_bytes()

    command("translate", averaged, texts["test.en"], "--out", out)
    *lines, rest = out.read_bytes().split(b"\n")
    assert (len(lines), rest) == (TEST_PAIRS, b"")
    assert all(lines)
    result = command("evaluate", out, texts["test.de"], "--json")
    scores = {score["name"]: score["value"] for score in json.loads(result.text)}
    assert scores["exact match"] >= run_of.wanted_exact, scores
