"""The paper's model beside what it replaced: a recurrent encoder-decoder with attention, trained on the same batches.

Both are given the same minutes, batches, rate, smoothing and search; the recurrent one
(`dragoman.predecessors.recurrent`, Bahdanau et al. 2015) is as wide as the recipe's d_model. Printed: parameters, source
and target tokens a second, how many steps of an update must wait for the one before (positions of a recurrence; layers
of a Transformer), and BLEU of a text, whole and by the length of its sources.

    python benchmarks/predecessor.py PREPARED SOURCE REFERENCE
        [--recipe demo] [--minutes 10] [--seeds 1 2 3] [--threads 2]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from learning import translations
from measure import RESULTS, prepare_process, threads_of

from dragoman.data.batches import BatchLoader, BatchPlan
from dragoman.data.prepared import PreparedCorpus, open_prepared
from dragoman.machine import fast_precision
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import Transformer
from dragoman.predecessors.recurrent import RecurrentConfig, RecurrentTranslator
from dragoman.provenance import provenance
from dragoman.recipe import Recipe
from dragoman.recipes.named import read_recipe
from dragoman.scoring.bleu import bleu
from dragoman.text.lines import read_units
from dragoman.training.schedule import Cooldown, cooldown_due
from dragoman.training.step import optimizer_for, update

LENGTHS = (10, 20, 30)  # of a source in subwords, EOS included: up to each, and more


@dataclass(frozen=True)
class Outcome:
    """One model after its minutes.

    Attributes:
        waiting_steps: of the mean update, one after another.
        by_length: BLEU of the sentences up to each length, and of the longer ones.
    """

    name: str
    seed: int
    parameters: int
    updates: int
    tokens_per_second: float
    waiting_steps: float
    bleu: float
    by_length: tuple[float, ...]


def model_named(name: str, recipe: Recipe, vocab_size: int) -> Transformer | RecurrentTranslator:
    """A new model with the recipe's seed."""
    shape, seed = recipe.model, recipe.training.seed
    if name == "Transformer":
        return Transformer(ModelConfig.from_shape(shape, vocab_size=vocab_size), seed=seed)
    sizes = RecurrentConfig(vocab_size, d_model=shape.d_model, d_hidden=shape.d_model, P_drop=shape.P_drop)
    return RecurrentTranslator(sizes, seed=seed)


def trained(
    name: str, corpus: PreparedCorpus, recipe: Recipe
) -> tuple[Transformer | RecurrentTranslator, int, float, float]:
    """The model after its minutes; updates, tokens a second, and steps that waited."""
    model = model_named(name, recipe, corpus.target_subwords.vocab_size)
    optimizer = optimizer_for(model, recipe)
    plan = BatchPlan.of(
        corpus.train,
        source_tokens=recipe.batch.source_tokens,
        target_tokens=recipe.batch.target_tokens,
        seed=recipe.training.seed,
        max_length=recipe.batch.max_length,
    )
    minutes, cooldown = recipe.training.max_minutes, None
    assert minutes is not None
    tokens = waited = 0
    began = time.perf_counter()
    for step, (batch, _) in enumerate(BatchLoader(corpus.train, plan).batches(), start=1):
        spent = time.perf_counter() - began
        if spent >= 60.0 * minutes:
            break
        cooldown = cooldown or _due(recipe, step - 1, spent)
        update(model, optimizer, batch, recipe, step, cooldown)
        tokens += batch.source_tokens + batch.target_tokens
        recurrences = batch.source_ids.shape[1] + batch.target_input_ids.shape[1]
        waited += 2 * recipe.model.N if isinstance(model, Transformer) else recurrences
    return model, step - 1, tokens / spent, waited / max(1, step - 1)


def _due(recipe: Recipe, step: int, seconds: float) -> Cooldown | None:
    training = recipe.training
    return cooldown_due(
        recipe.optimizer.cooldown,
        step,
        seconds,
        max_steps=training.max_steps,
        max_minutes=training.max_minutes,
    )


def outcome(name: str, corpus: PreparedCorpus, recipe: Recipe, texts: tuple[list[str], list[str]]) -> Outcome:
    """Trains, translates and scores one model."""
    model, updates, rate, waited = trained(name, corpus, recipe)
    found = translations(model, corpus, recipe, texts[0])
    lengths = [len(corpus.source_subwords.encode(unit)) + 1 for unit in texts[0]]
    by_length = []
    for least, most in zip((0, *LENGTHS), (*LENGTHS, 10**9), strict=True):
        some = [k for k, length in enumerate(lengths) if least < length <= most]
        pairs = [found[k] for k in some], [texts[1][k] for k in some]
        by_length.append(bleu(*pairs, target_language=corpus.target_language).value if some else float("nan"))
    return Outcome(
        name,
        recipe.training.seed,
        sum(p.numel() for p in model.parameters()),
        updates,
        rate,
        waited,
        bleu(found, texts[1], target_language=corpus.target_language).value,
        tuple(by_length),
    )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("prepared", type=Path)
    options.add_argument("source", type=Path)
    options.add_argument("reference", type=Path)
    options.add_argument("--recipe", default="demo")
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--threads", type=int, default=None)
    given = options.parse_args()
    threads = threads_of(given.threads)
    prepare_process(threads)
    corpus = open_prepared(given.prepared)
    texts = list(read_units(given.source)), list(read_units(given.reference))
    precision = fast_precision(torch.device("cpu"))
    found = []
    for seed in given.seeds:
        changes = [
            f"training.{field}"
            for field in (f"seed={seed}", f"max_minutes={given.minutes}", f"precision={precision}")
        ]
        recipe = read_recipe(given.recipe).with_changes(changes)
        for name in ("Transformer", "recurrent"):
            found.append(outcome(name, corpus, recipe, texts))
            print(found[-1], flush=True)
    shown = [f"to {most}" for most in LENGTHS] + [f"over {LENGTHS[-1]}"]
    print(f"\n{given.minutes:g} minutes, {threads} threads, {precision}, means of {len(given.seeds)} seeds")
    print(
        f"  {'':12} {'parameters':>11} {'updates':>8} {'tokens/s':>9} {'waiting':>8} {'BLEU':>6}   by length:",
        *shown,
    )
    for name in ("Transformer", "recurrent"):
        rows = [one for one in found if one.name == name]

        def mean(field: str, rows: list[Outcome] = rows) -> float:
            return statistics.mean(getattr(one, field) for one in rows)

        lengths = [statistics.mean(one.by_length[k] for one in rows) for k in range(len(shown))]
        print(
            f"  {name:12} {rows[0].parameters:11,} {mean('updates'):8,.0f} {mean('tokens_per_second'):9,.0f} "
            f"{mean('waiting_steps'):8.0f} {mean('bleu'):6.2f}  ",
            "  ".join(f"{value:5.1f}" for value in lengths),
        )
    RESULTS.mkdir(exist_ok=True)
    settings = {"recipe": given.recipe, "minutes": given.minutes, "threads": threads, "precision": precision}
    record = {"settings": settings, "provenance": provenance(), "found": [asdict(one) for one in found]}
    (RESULTS / "predecessor.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
