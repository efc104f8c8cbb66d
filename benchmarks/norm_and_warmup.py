"""Where the norm stands, and how long the rate rises: what post-norm and pre-norm learn with long warm-ups and with none.

The paper's norm (3.1) and pre-norm (Xiong et al. 2020), six layers a side as the paper has, each with the paper's rate
(5.3) and several `warmup_steps`. From the longest warm-up on the rate is the same in all runs: a shorter warm-up adds
higher rates before that and changes nothing after. Trained on the embedded grammar; scored on sentences that hold
combinations of words which are in no sentence of training. A run has diverged where its loss was no longer finite, or
where it ends with a dev perplexity above that of the mere frequencies of the tokens.

    python benchmarks/norm_and_warmup.py [--seeds 1 2 3] [--threads 1] [--warmups 1 100 400 1600] [--updates 2500]

Each run is a line of `results/norm_and_warmup.jsonl`, and is not made again where its line is there. `--short` takes a
moment and shows that all of it works.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import torch
from learning import (
    Kept,
    learned,
    markdown,
    options_of,
    perplexity_of_frequencies,
    prepared_grammar,
    shown,
    translations,
    write_table,
)
from measure import prepare_process

from dragoman.data.batches import dev_batches
from dragoman.data.prepared import PreparedCorpus
from dragoman.machine import fast_precision
from dragoman.model.config import ModelShape
from dragoman.model.transformer import Transformer
from dragoman.recipe import (
    BatchSection,
    DepartureSection,
    OptimizerSection,
    Recipe,
    SubwordSection,
    TrainingSection,
)
from dragoman.scoring.exact_match import exact_match
from dragoman.text.lines import read_units
from dragoman.training.schedule import learning_rate
from dragoman.training.validation import dev_loss
from dragoman.variants.departures import Departure, PreNorm

NAME = "norm_and_warmup"
NORMS: dict[str, tuple[Departure, ...]] = {"post-norm (the paper)": (), "pre-norm": (PreNorm(),)}


@dataclass(frozen=True)
class Scale:
    """How large all of it is."""

    pairs: int
    test_pairs: int
    vocab_size: int
    N: int
    d_model: int
    d_ff: int
    h: int
    tokens: int
    updates: int
    warmups: tuple[int, ...]


FULL = Scale(
    pairs=60_000,
    test_pairs=500,
    vocab_size=2_000,
    N=6,
    d_model=64,
    d_ff=128,
    h=4,
    tokens=512,
    updates=2_500,
    warmups=(1, 100, 400, 1_600),
)
SHORT = Scale(
    pairs=200,
    test_pairs=10,
    vocab_size=340,
    N=1,
    d_model=16,
    d_ff=16,
    h=2,
    tokens=128,
    updates=6,
    warmups=(1, 4),
)


def recipe_of(scale: Scale, norm: str, warmup: int, seed: int, precision: str) -> Recipe:
    """One run's rules: the paper's but for sizes and, where asked for, the norm's place."""
    return Recipe(
        name=NAME,
        model=ModelShape(N=scale.N, d_model=scale.d_model, d_ff=scale.d_ff, h=scale.h, P_drop=0.0),
        subwords=SubwordSection(vocab_size=scale.vocab_size),
        batch=BatchSection(
            source_tokens=scale.tokens, target_tokens=scale.tokens, max_length=64, tokens_at_once=scale.tokens
        ),
        optimizer=OptimizerSection(warmup_steps=warmup),
        training=TrainingSection(max_steps=scale.updates, seed=seed, precision=precision),
        departures=DepartureSection(architecture=NORMS[norm]),
    )


def outcome(corpus: PreparedCorpus, recipe: Recipe) -> dict[str, Any]:
    """What one run has learned."""
    run = learned(corpus, recipe)
    batches = dev_batches(corpus.dev, recipe.batch.target_tokens)
    nll = dev_loss(run.model, batches, recipe.training.eps_ls).nll
    by_frequency = perplexity_of_frequencies(corpus.train, corpus.dev, corpus.target_subwords.vocab_size)
    sizes = {"d_model": recipe.model.d_model, "warmup_steps": recipe.optimizer.warmup_steps}
    rates = [learning_rate(step, **sizes) for step in range(1, recipe.training.max_steps + 1)]
    finite = run.updates == recipe.training.max_steps and math.isfinite(nll)
    perplexity = math.exp(min(nll, 100.0)) if finite else None
    diverged = perplexity is None or perplexity >= by_frequency
    return {
        "updates": run.updates,
        "highest_rate": max(rates),
        "perplexity": perplexity,
        "diverged": diverged,
        "exact": 0.0 if diverged else _exact(run.model, corpus, recipe),
        "seconds": run.seconds,
    }


def _exact(model: Transformer, corpus: PreparedCorpus, recipe: Recipe) -> float:
    """Of the test set, translated greedily."""
    sources, references = (
        list(read_units(corpus.directory.parent / f"test.{side}")) for side in ("en", "de")
    )
    found = translations(model, corpus, recipe, sources, beam_size=1)
    return exact_match(found, references).value


def table(runs: Sequence[dict[str, Any]]) -> str:
    """One row a norm and warm-up, the values of all seeds."""
    head = ["norm", "warm-up", "highest rate", "exact match, %", "dev perplexity", "diverged"]
    rows: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for run in runs:
        rows.setdefault((run["norm"], run["warmup"]), []).append(run)
    return markdown(head, [_row(*key, some) for key, some in rows.items()])


def _row(norm: str, warmup: int, runs: Sequence[dict[str, Any]]) -> list[str]:
    ended = [run["perplexity"] for run in runs if run["perplexity"] is not None]
    return [
        norm,
        f"{warmup:,}",
        f"{runs[0]['highest_rate']:.4f}",
        shown([run["exact"] for run in runs]),
        shown(ended, 2) if ended else "none",
        f"{sum(run['diverged'] for run in runs)} of {len(runs)}",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    options = options_of(__doc__)
    options.add_argument("--warmups", type=int, nargs="+", default=None)
    given = options.parse_args(arguments)
    prepare_process(given.threads)
    scale = SHORT if given.short else FULL
    scale = replace(
        scale, updates=given.updates or scale.updates, warmups=tuple(given.warmups or scale.warmups)
    )
    corpus = prepared_grammar(
        given.out, pairs=scale.pairs, test_pairs=scale.test_pairs, vocab_size=scale.vocab_size
    )
    settings = {
        "pairs": scale.pairs,
        "threads": given.threads,
        "precision": fast_precision(torch.device("cpu")),
    }
    kept, runs = Kept(given.out / f"{NAME}.jsonl"), []
    for seed, norm, warmup in product(given.seeds, NORMS, scale.warmups):
        recipe = recipe_of(scale, norm, warmup, seed, settings["precision"])
        asked = {**settings, "recipe": recipe.model_dump(mode="json")}
        found = kept.result(asked, partial(outcome, corpus, recipe))
        runs.append({"norm": norm, "warmup": warmup, "seed": seed, **found})
        print(runs[-1], flush=True)
    print(f"\n{table(runs)}")
    write_table(given.out / f"{NAME}.json", {**settings, "scale": asdict(scale)}, runs)


if __name__ == "__main__":
    main()
