"""What measurements of learning share: the embedded grammar, runs of so many updates, translations, kept results.

A run's result is a line of a file, found again by all that was asked of the run: a script that is started again, or
beside itself with other seeds, computes what is missing and nothing else. Runs are limited in updates, so that what
comes out does not depend on what else the machine is doing.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import RESULTS
from torch import Tensor, nn

from dragoman.data.batches import BatchLoader, BatchPlan
from dragoman.data.prepare import prepare
from dragoman.data.prepared import PreparedCorpus, open_prepared
from dragoman.data.shards import PairShards
from dragoman.errors import DataError, NonFiniteLoss
from dragoman.model.config import ModelConfig
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.transformer import Transformer
from dragoman.predecessors.recurrent import RecurrentDecoder, RecurrentTranslator
from dragoman.provenance import provenance
from dragoman.recipe import Recipe
from dragoman.search.beam import beam_search
from dragoman.search.options import SearchOptions
from dragoman.search.step import StepFunction
from dragoman.text.grammar.generate import write_corpus
from dragoman.text.subwords import Subwords
from dragoman.training.schedule import cooldown_due
from dragoman.training.step import optimizer_for, update
from dragoman.variants.parts import build

BATCH = 32


def options_of(description: str | None) -> argparse.ArgumentParser:
    """What a script of many runs can be told."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--updates", type=int, default=None, help="of each run")
    options.add_argument("--out", type=Path, default=RESULTS, help="folder of results and of the corpus")
    options.add_argument("--short", action="store_true", help="a moment's work, to see that all of it works")
    return options


def prepared_grammar(folder: Path, *, pairs: int, test_pairs: int, vocab_size: int) -> PreparedCorpus:
    """So many pairs of the embedded grammar, made once; the texts `dev.en` ... `test.de` are beside it."""
    place = folder / f"grammar-{pairs}-{test_pairs}-{vocab_size}"
    try:
        return open_prepared(place / "prepared")
    except DataError:
        write_corpus(place, train=pairs, dev=test_pairs, test=test_pairs)
    return prepare(
        place / "train.en",
        place / "train.de",
        out=place / "prepared",
        dev_source=place / "dev.en",
        dev_target=place / "dev.de",
        vocab_size=vocab_size,
    )


@dataclass(frozen=True)
class Learned:
    """A model after its updates, its weights in float32.

    Attributes:
        updates: made; fewer than asked for where the loss or a gradient was no longer finite.
        seconds: of this process's work.
    """

    model: Transformer
    updates: int
    seconds: float


def learned(corpus: PreparedCorpus, recipe: Recipe) -> Learned:
    """A new model after the recipe's `max_steps` updates, as it then is: nothing is averaged."""
    config = ModelConfig.from_shape(recipe.model, vocab_size=corpus.target_subwords.vocab_size)
    departures = recipe.departures.architecture
    model = build(config, departures, seed=recipe.training.seed)
    optimizer = optimizer_for(model, recipe)
    plan = BatchPlan.of(
        corpus.train,
        source_tokens=recipe.batch.source_tokens,
        target_tokens=recipe.batch.target_tokens,
        seed=recipe.training.seed,
        max_length=recipe.batch.max_length,
    )
    began, cooldown, most = time.process_time(), None, recipe.training.max_steps
    batches = BatchLoader(corpus.train, plan, prefetch=0).batches()
    step = 0
    while step < most:
        cooldown = cooldown or cooldown_due(
            recipe.optimizer.cooldown, step, 0.0, max_steps=most, max_minutes=None
        )
        batch, _ = next(batches)
        try:
            update(model, optimizer, batch, recipe, step + 1, cooldown)
        except NonFiniteLoss:
            break
        step += 1
    seconds = time.process_time() - began
    return Learned(_with_weights(build(config, departures, seed=None), optimizer.weights()), step, seconds)


@torch.no_grad()
def _with_weights(model: Transformer, weights: dict[str, Tensor]) -> Transformer:
    """A model in float32 with the optimizer's own weights, which it may have rounded for the one it trained."""
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])
    return model.eval()


def perplexity_of_frequencies(train: PairShards, dev: PairShards, vocab_size: int) -> float:
    """Of the dev set's target tokens, for one who knows how often each token is and nothing else.

    Every token is counted once more than it occurs, so that none has no probability.
    """
    counts = np.bincount(np.asarray(train.target_ids), minlength=vocab_size) + 1
    nll = -np.log(counts / counts.sum())[np.asarray(dev.target_ids)]
    return float(np.exp(nll.mean()))


def translations(
    model: nn.Module,
    corpus: PreparedCorpus,
    recipe: Recipe,
    sources: Sequence[str],
    *,
    beam_size: int | None = None,
) -> list[str]:
    """By beam search as the recipe has it, in float32."""
    model = model.float().eval()
    rows = [[*corpus.source_subwords.encode(unit), Subwords.EOS_ID] for unit in sources]
    options = SearchOptions(
        beam_size=beam_size or recipe.search.beam_size,
        alpha=recipe.search.alpha,
        max_extra=recipe.search.max_extra,
    )
    order = sorted(range(len(rows)), key=lambda k: len(rows[k]))
    found = [""] * len(rows)
    for start in range(0, len(order), BATCH):
        some = order[start : start + BATCH]
        longest = max(len(rows[k]) for k in some)
        ids = torch.tensor([rows[k] + [Subwords.PAD_ID] * (longest - len(rows[k])) for k in some])
        best = beam_search(
            _step(model, ids),
            source_lengths=[len(rows[k]) for k in some],
            options=options,
            bos_id=Subwords.BOS_ID,
            eos_id=Subwords.EOS_ID,
            forbidden_ids=corpus.target_subwords.forbidden_ids,
        )
        for k, hypotheses in zip(some, best, strict=True):
            tokens = [token for token in hypotheses[0].tokens if token != Subwords.EOS_ID]
            found[k] = corpus.target_subwords.decode(tokens)
    return found


def _step(model: nn.Module, ids: Tensor) -> StepFunction:
    if isinstance(model, RecurrentTranslator):
        return RecurrentDecoder(model, ids)
    assert isinstance(model, Transformer)
    return IncrementalDecoder(model, ids)


class Kept:
    """Results of runs in a file of JSON lines, added to and never rewritten.

    A line that was cut off while it was written is passed over, and its run is made again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def result(self, asked: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was found when this was asked before; else what `measure` finds now, which is kept."""
        for line in self._lines():
            if line["asked"] == asked:
                return dict(line["found"])
        found = measure()
        text = json.dumps({"asked": asked, "found": found, "provenance": provenance()})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n" if self._ends_a_line() else f"\n{text}\n")
            file.flush()
            os.fsync(file.fileno())
        return dict(json.loads(text)["found"])

    def _lines(self) -> list[dict[str, Any]]:
        if not self.path.is_file():
            return []
        whole = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                whole.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return whole

    def _ends_a_line(self) -> bool:
        text = self.path.read_bytes()
        return not text or text.endswith(b"\n")


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def shown(values: Sequence[float], digits: int = 1) -> str:
    """The mean, with the value of each seed behind it; very large ones with three digits."""
    told = [f"{value:.{digits}f}" if value < 1e4 else f"{value:.2e}" for value in (np.mean(values), *values)]
    return told[0] if len(values) == 1 else f"{told[0]} ({', '.join(told[1:])})"


def write_table(path: Path, settings: dict[str, Any], runs: Sequence[dict[str, Any]]) -> None:
    """The runs of one table, for programs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"settings": settings, "provenance": provenance(), "runs": list(runs)}
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
