"""Which recipe to take where none was asked for, and how long it will take here.

Paper: none (infrastructure)
The rule: by pairs of training text and by device. On a CPU under 200,000 pairs: quick, demo or laptop, which differ in
dropout, by the passes over the text that the minutes (30 unless given) allow on this machine; brief, a smaller model,
where these are few passes and few updates; the rate rises for a shorter time where there are few updates. Above, small.
On a GPU: tiny under 50,000, small under 1 million, base above. Of one text: lm. Number format: bf16 where this machine
is clearly faster in it, fp16 where a GPU is that in fp16 alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from dragoman.data.batches import Batch
from dragoman.data.prepared import PreparedCorpus
from dragoman.machine import fast_precision
from dragoman.model.config import ModelConfig
from dragoman.recipe import Recipe
from dragoman.recipes.named import (
    base,
    brief,
    demo,
    laptop,
    lm,
    quick,
    small,
    tiny,
    with_minutes,
    with_updates,
)
from dragoman.training.loss_scale import LossScale
from dragoman.training.step import optimizer_for, update
from dragoman.variants.parts import build

# Passes over the text from which on more dropout learns more.
DEMO_PASSES, LAPTOP_PASSES = 12, 30
QUICK_UPDATES = 2_000  # from which on a deeper model learns more than a smaller one does of more text
TRIAL_TOKENS = 2_048  # a side: enough to keep every core busy, few enough to be over in a moment


@dataclass(frozen=True)
class Choice:
    """A recipe, and why."""

    recipe: Recipe
    reason: str
    expected_hours: float

    @property
    def expected_time(self) -> str:
        """In the unit a person would use."""
        minutes = 60.0 * self.expected_hours
        if minutes < 9.95:
            return f"{minutes:.1f} minutes"
        return f"{minutes:.0f} minutes" if minutes < 99.5 else f"{self.expected_hours:.1f} hours"


def choose_recipe(
    corpus: PreparedCorpus, device: torch.device, *, max_minutes: float | None = None
) -> Choice:
    """The recipe for this corpus on this machine, for so many minutes of training if there is a limit."""
    pairs, precision = len(corpus.train), fast_precision(device)
    reason = f"{pairs:,} pairs on {_where(device)}"
    if device.type == "cuda":
        recipe = tiny() if pairs < 50_000 else small() if pairs < 1_000_000 else base()
    elif pairs < 200_000:
        recipe, passes = for_minutes(max_minutes, corpus, device, precision)
        reason += f", {passes:,.0f} passes over them"
    else:
        recipe = small()
    recipe = with_precision(recipe, precision)
    hours = expected_hours(recipe, corpus, device)
    return Choice(recipe, reason, hours if max_minutes is None else min(hours, max_minutes / 60.0))


def choose_language_model(
    corpus: PreparedCorpus, device: torch.device, *, max_minutes: float | None = None
) -> Choice:
    """The recipe for one text, which has no translation."""
    recipe = lm() if max_minutes is None else with_minutes(lm(), max_minutes)
    recipe = with_precision(recipe, fast_precision(device))
    minutes = recipe.training.max_minutes
    assert minutes is not None
    reason = f"one text of {len(corpus.train):,} lines on {_where(device)}"
    return Choice(recipe, reason, minutes / 60.0)


def for_minutes(
    minutes: float | None, corpus: PreparedCorpus, device: torch.device, precision: str
) -> tuple[Recipe, float]:
    """Brief, quick, demo or laptop, with these minutes, and the passes over the text that they allow on this machine.

    Where there will be few updates the rate rises for a shorter time (`with_updates`).
    """
    minutes = laptop().training.max_minutes if minutes is None else minutes
    assert minutes is not None
    seconds = 60.0 * minutes

    def passes_and_updates(recipe: Recipe) -> tuple[float, float]:
        pairs = seconds * pairs_a_second(with_precision(recipe, precision), corpus, device)
        return pairs / max(1, len(corpus.train)), pairs / pairs_an_update(recipe, corpus)

    passes, updates = passes_and_updates(laptop())
    chosen = quick() if passes < DEMO_PASSES else demo() if passes < LAPTOP_PASSES else laptop()
    if passes < DEMO_PASSES and updates < QUICK_UPDATES:
        chosen = brief()
        passes, updates = passes_and_updates(chosen)
    return with_updates(with_minutes(chosen, minutes), updates), passes


def _where(device: torch.device) -> str:
    if device.type == "cuda":
        return "a GPU"
    threads = torch.get_num_threads()
    return f"{threads} CPU thread" + ("s" if threads > 1 else "")


def with_precision(recipe: Recipe, precision: str) -> Recipe:
    """The recipe in another number format."""
    return recipe.with_changes([f"training.precision={precision}"])


def expected_hours(recipe: Recipe, corpus: PreparedCorpus, device: torch.device) -> float:
    """Hours to the recipe's last update, from the rate of a few real updates of its model here; rough."""
    pairs = pairs_an_update(recipe, corpus) * recipe.training.max_steps
    hours = pairs / pairs_a_second(recipe, corpus, device) / 3600.0
    limit = recipe.training.max_minutes
    return hours if limit is None else min(hours, limit / 60.0)


def pairs_an_update(recipe: Recipe, corpus: PreparedCorpus) -> float:
    """Pairs of the corpus's mean length in a batch."""
    S, T = mean_lengths(corpus)
    return min(recipe.batch.source_tokens / S, recipe.batch.target_tokens / T)


def mean_lengths(corpus: PreparedCorpus) -> tuple[int, int]:
    """Mean tokens of a source and of a target, EOS included."""
    sources, targets = corpus.train.source_lengths, corpus.train.target_lengths
    return max(1, round(float(sources.mean()))), max(1, round(float(targets.mean())))


def pairs_a_second(recipe: Recipe, corpus: PreparedCorpus, device: torch.device) -> float:
    """Training rate of the recipe's model here, on pairs of the corpus's mean length: the better of two updates."""
    S, T = mean_lengths(corpus)
    pairs = max(1, TRIAL_TOKENS // max(S, T))
    V = corpus.target_subwords.vocab_size
    generator = torch.Generator().manual_seed(1)
    source, target = (torch.randint(1, V, (pairs, n), generator=generator) for n in (S, T))
    batch = Batch(source, target, target, torch.arange(pairs), pairs * S, pairs * T).to(device)
    config = ModelConfig.from_shape(recipe.model, vocab_size=V)
    model = build(config, recipe.departures.architecture).to(device)
    optimizer = optimizer_for(model, recipe)
    seconds = []
    for step in (1, 2, 3):  # the first one pays for memory and kernels
        began = time.perf_counter()
        update(model, optimizer, batch, recipe, step, scale=LossScale.of(recipe.training.precision))
        seconds.append(time.perf_counter() - began)
    return pairs / min(seconds[1:])
