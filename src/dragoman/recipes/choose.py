"""Which recipe to take where none was asked for, and how long it will take here.

Paper: none (infrastructure)
The rule: by pairs of training text and by device. On a CPU: tiny under 200,000 pairs, small above. On a GPU:
tiny under 50,000, small under 1 million, base above. Number format: bf16 where this machine is clearly faster in
it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dragoman.data.prepared import PreparedCorpus
from dragoman.machine import TRAINING_SHARE, fast_precision, product_rate
from dragoman.model.config import ModelConfig
from dragoman.model.count import training_flops
from dragoman.recipe import Recipe
from dragoman.recipes.named import base, small, tiny

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Choice:
    """A recipe, and why."""

    recipe: Recipe
    reason: str
    expected_hours: float


def choose_recipe(corpus: PreparedCorpus, device: torch.device) -> Choice:
    """The recipe for this corpus on this machine."""
    pairs = len(corpus.train)
    if device.type == "cuda":
        recipe = tiny() if pairs < 50_000 else small() if pairs < 1_000_000 else base()
    else:
        recipe = tiny() if pairs < 200_000 else small()
    recipe = with_precision(recipe, fast_precision(device))
    where = "a GPU" if device.type == "cuda" else f"{torch.get_num_threads()} CPU threads"
    reason = f"{pairs:,} pairs on {where}"
    return Choice(recipe, reason, expected_hours(recipe, corpus, device))


def with_precision(recipe: Recipe, precision: str) -> Recipe:
    """The recipe in another number format."""
    return recipe.with_changes([f"training.precision={precision}"])


def expected_hours(recipe: Recipe, corpus: PreparedCorpus, device: torch.device) -> float:
    """Hours to the recipe's last update, from counted operations and this machine's measured rate; rough."""
    sources, targets = corpus.train.source_lengths, corpus.train.target_lengths
    S, T = round(float(sources.mean())), round(float(targets.mean()))
    pairs_an_update = min(recipe.batch.source_tokens / S, recipe.batch.target_tokens / T)
    config = ModelConfig.from_shape(recipe.model, vocab_size=corpus.target_subwords.vocab_size)
    operations = training_flops(config, S, T) * pairs_an_update * recipe.training.max_steps
    rate = product_rate(_DTYPES[recipe.training.precision], device) * TRAINING_SHARE
    hours = operations / rate / 3600.0
    limit = recipe.training.max_minutes
    return hours if limit is None else min(hours, limit / 60.0)
