"""The command line as a user meets it: start-up, the first translation, and training end to end.

Each command runs in a process of its own, `--rounds` times in turn; medians. `dragoman train` is given a prepared corpus
and the recipe `tiny` in bf16; its rate is that of its log between the first tenth of the updates and the last, with data,
log and checkpoints. Beside it, in turn: the same updates on the same batches by a bare loop in one process.

    python benchmarks/command_line.py MODEL PREPARED [--steps 400] [--rounds 3] [--threads 2]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from measure import RESULTS, prepare_process, threads_of
from train_step import our_update

from dragoman.data.batches import BatchLoader, BatchPlan
from dragoman.data.manifest import read_manifest
from dragoman.data.shards import PairShards
from dragoman.model.config import ModelConfig
from dragoman.provenance import provenance
from dragoman.recipe import Recipe
from dragoman.recipes.named import recipe_named

LINE = "A man in a blue shirt is standing on a ladder cleaning a window.\n"


def seconds_of(arguments: list[str], stdin: str = "") -> float:
    """Of a command, from its start to its end."""
    began = time.perf_counter()
    subprocess.run(arguments, input=stdin, check=True, capture_output=True, text=True)
    return time.perf_counter() - began


def rate_of_command(prepared: Path, steps: int, threads: int) -> float:
    """Source and target tokens a second of `dragoman train`, by its log."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [
            sys.executable,
            "-m",
            "dragoman",
            "train",
            str(prepared),
            "--out",
            str(run),
            "--recipe",
            "tiny",
        ]
        changes = (f"max_steps={steps}", "precision=bf16", "validation_sentences=0", "log_steps=1")
        for change in changes:
            command += ["--set", f"training.{change}"]
        seconds_of([*command, "--threads", str(threads)])
        lines = [json.loads(line) for line in (run / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    logged = [line for line in lines if line["event"] == "stepped"][steps // 10 :]
    tokens = sum(line["source_tokens"] + line["target_tokens"] for line in logged[1:])
    return tokens / (logged[-1]["seconds"] - logged[0]["seconds"])


def rate_of_loop(prepared: Path, steps: int) -> float:
    """The same of a bare loop over the same batches, made beforehand."""
    shards, recipe = PairShards.open(prepared, "train"), _tiny(prepared)
    plan = BatchPlan.of(
        shards,
        source_tokens=recipe.batch.source_tokens,
        target_tokens=recipe.batch.target_tokens,
        seed=recipe.training.seed,
        max_length=recipe.batch.max_length,
    )
    made = [batch for batch, _ in itertools.islice(BatchLoader(shards, plan, prefetch=0).batches(), steps)]
    shape = {name: getattr(recipe.model, name) for name in ("N", "d_model", "d_ff", "h")}
    step, _ = our_update(ModelConfig(vocab_size=recipe.subwords.vocab_size, **shape), "bf16")
    first = steps // 10
    for batch in made[:first]:
        step(batch)
    began = time.perf_counter()
    for batch in made[first:]:
        step(batch)
    spent = time.perf_counter() - began
    return sum(batch.source_tokens + batch.target_tokens for batch in made[first:]) / spent


def _tiny(prepared: Path) -> Recipe:
    size = read_manifest(prepared).vocabularies["target"].size
    return recipe_named("tiny").with_changes([f"subwords.vocab_size={size}"])


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("model", type=Path)
    options.add_argument("prepared", type=Path)
    options.add_argument("--steps", type=int, default=400)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=None)
    given = options.parse_args()
    threads = threads_of(given.threads)
    prepare_process(threads)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    dragoman = [sys.executable, "-m", "dragoman"]
    works: dict[str, tuple[str, Callable[[], float]]] = {
        "python": ("s", lambda: seconds_of([sys.executable, "-c", "pass"])),
        "dragoman --help": ("s", lambda: seconds_of([*dragoman, "--help"])),
        "import torch": ("s", lambda: seconds_of([sys.executable, "-c", "import torch"])),
        "dragoman translate, one line": (
            "s",
            lambda: seconds_of([*dragoman, "translate", str(given.model)], LINE),
        ),
        "dragoman train, tokens a second": (
            "/s",
            lambda: rate_of_command(given.prepared, given.steps, threads),
        ),
        "a bare loop, tokens a second": ("/s", lambda: rate_of_loop(given.prepared, given.steps)),
    }
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(given.rounds):
        for name, (_, work) in works.items():
            found[name].append(work())
    print(f"\nthe command line, {threads} threads, medians of {given.rounds}")
    for name, (unit, _) in works.items():
        middle, apart = statistics.median(found[name]), max(found[name]) - min(found[name])
        print(f"  {name:34} {middle:12,.2f} {unit:3} spread {apart / middle:.0%}")
    beyond = [
        a - b for a, b in zip(found["dragoman translate, one line"], found["import torch"], strict=True)
    ]
    share = [
        a / b
        for a, b in zip(
            found["dragoman train, tokens a second"], found["a bare loop, tokens a second"], strict=True
        )
    ]
    print(f"  first translation beyond torch's import: {statistics.median(beyond):.2f} s")
    print(f"  dragoman train reaches {statistics.median(share):.0%} of the bare loop")
    RESULTS.mkdir(exist_ok=True)
    record = {
        "settings": {"steps": given.steps, "threads": threads},
        "provenance": provenance(),
        "found": found,
    }
    (RESULTS / "command_line.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
