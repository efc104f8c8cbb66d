"""What a model has learned after so many minutes: ours, and a plain loop around Hugging Face's Marian beside it.

Both have the sizes, the batches in their order, the rate and the smoothing of the recipe, the same minutes of training
and the same seed; ours trains by `dragoman train`, in the faster number format, and averages its last checkpoints; the
loop runs under autocast in the same format, and drops in the same places. Both translate with the recipe's beam, Marian
by its own `generate`. Scored with sacreBLEU on the text given: a dev set, while anything is still being chosen.

    python benchmarks/quality.py PREPARED SOURCE REFERENCE [--recipe demo] [--minutes 5 10] [--seeds 1 2] [--threads 2]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from measure import RESULTS, prepare_process, threads_of
from torch.nn import functional as F
from twins import marian_config

from dragoman.data.batches import BatchLoader, BatchPlan
from dragoman.data.prepared import PreparedCorpus, open_prepared
from dragoman.machine import fast_precision
from dragoman.model.config import ModelConfig
from dragoman.pipeline import chunks, evaluate, train
from dragoman.provenance import provenance
from dragoman.recipe import Recipe
from dragoman.recipes.named import read_recipe
from dragoman.scoring.bleu import bleu
from dragoman.text.lines import read_units
from dragoman.text.subwords import Subwords
from dragoman.training.schedule import Cooldown, cooldown_due, learning_rate


@dataclass(frozen=True)
class Learned:
    """A side's result.

    Attributes:
        updates: made in the minutes.
        bleu: of the text.
        signature: of the score.
    """

    updates: int
    bleu: float
    signature: str


def ours(corpus: PreparedCorpus, recipe: Recipe, texts: tuple[list[str], list[str]]) -> Learned:
    """`dragoman train` and `evaluate`."""
    with tempfile.TemporaryDirectory() as folder:
        run = train(corpus, Path(folder) / "run", recipe=recipe)
        assert run.model is not None
        score, *_ = evaluate(run.model, *texts).scores
        lines = (Path(folder) / "run" / "events.jsonl").read_text(encoding="utf-8").splitlines()
    updates = [event["step"] for event in map(json.loads, lines) if event["event"] == "ended"]
    return Learned(updates[-1], score.value, score.signature)


def marian(corpus: PreparedCorpus, recipe: Recipe, texts: tuple[list[str], list[str]]) -> Learned:
    """The loop that anyone would write, with the recipe's rules."""
    training, shape = recipe.training, recipe.model
    torch.manual_seed(training.seed)
    sizes = {name: getattr(shape, name) for name in ("N", "d_model", "d_ff", "h", "P_drop")}
    config = ModelConfig(vocab_size=corpus.target_subwords.vocab_size, **sizes)
    longest = max(512, recipe.batch.max_length + recipe.search.max_extra)
    model: Any = transformers.MarianMTModel(
        marian_config(config, longest=longest, use_cache=False, dropout=config.P_drop)
    )
    for name, parameter in model.named_parameters():
        if "shared" in name:
            torch.nn.init.normal_(parameter, std=config.d_model**-0.5)
        elif parameter.dim() > 1 and "embed_positions" not in name:
            torch.nn.init.xavier_uniform_(parameter)
    updates = _train_marian(model.train(), corpus, recipe)
    found = _translate_marian(model.eval(), corpus, recipe, texts[0])
    score = bleu(found, texts[1], target_language=corpus.target_language)
    return Learned(updates, score.value, score.signature)


def _train_marian(model: Any, corpus: PreparedCorpus, recipe: Recipe) -> int:
    training, rule = recipe.training, recipe.optimizer
    optimizer = torch.optim.Adam(
        [p for p in model.parameters() if p.requires_grad],
        lr=0.0,
        betas=(rule.beta_1, rule.beta_2),
        eps=rule.epsilon,
        fused=True,
    )
    plan = BatchPlan.of(
        corpus.train,
        source_tokens=recipe.batch.source_tokens,
        target_tokens=recipe.batch.target_tokens,
        seed=training.seed,
        max_length=recipe.batch.max_length,
    )
    assert training.max_minutes is not None
    cooldown: Cooldown | None = None
    began = time.perf_counter()
    for step, (batch, _) in enumerate(BatchLoader(corpus.train, plan).batches(), start=1):
        limits = {"max_steps": training.max_steps, "max_minutes": training.max_minutes}
        spent = time.perf_counter() - began
        if spent >= 60.0 * training.max_minutes:
            return step - 1
        cooldown = cooldown or cooldown_due(rule.cooldown, step - 1, spent, **limits)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(
                step,
                d_model=recipe.model.d_model,
                warmup_steps=rule.warmup_steps,
                factor=rule.factor,
                cooldown=cooldown,
            )
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=training.precision == "bf16"):
            logits = model(
                input_ids=batch.source_ids,
                attention_mask=(batch.source_ids != Subwords.PAD_ID).long(),
                decoder_input_ids=batch.target_input_ids,
            ).logits
        loss = F.cross_entropy(
            logits.float().flatten(0, 1),
            batch.target_output_ids.flatten(),
            ignore_index=Subwords.PAD_ID,
            label_smoothing=training.eps_ls,
        )
        loss.backward()
        optimizer.step()
    raise AssertionError("batches do not end")


@torch.no_grad()
def _translate_marian(model: Any, corpus: PreparedCorpus, recipe: Recipe, sources: list[str]) -> list[str]:
    settings = model.generation_config
    settings.bad_words_ids, settings.forced_eos_token_id, settings.max_length = None, None, None
    settings.eos_token_id, settings.pad_token_id = Subwords.EOS_ID, Subwords.PAD_ID
    settings.decoder_start_token_id = Subwords.BOS_ID
    found = []
    for some in chunks(sources, 50):
        rows = [[*corpus.source_subwords.encode(unit), Subwords.EOS_ID] for unit in some]
        longest = max(map(len, rows))
        ids = torch.tensor([row + [Subwords.PAD_ID] * (longest - len(row)) for row in rows])
        outputs = model.generate(
            ids,
            attention_mask=(ids != Subwords.PAD_ID).long(),
            num_beams=recipe.search.beam_size,
            length_penalty=recipe.search.alpha,
            max_new_tokens=longest + recipe.search.max_extra,
            use_cache=True,
        )
        special = {Subwords.EOS_ID, Subwords.PAD_ID, Subwords.BOS_ID}
        found += [
            corpus.target_subwords.decode([k for k in row if k not in special]) for row in outputs.tolist()
        ]
    return found


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("prepared", type=Path)
    options.add_argument("source", type=Path)
    options.add_argument("reference", type=Path)
    options.add_argument("--recipe", default="demo")
    options.add_argument("--minutes", type=float, nargs="+", default=[5.0, 10.0])
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    options.add_argument("--threads", type=int, default=None)
    given = options.parse_args()
    threads = threads_of(given.threads)
    prepare_process(threads)
    corpus = open_prepared(given.prepared)
    texts = list(read_units(given.source)), list(read_units(given.reference))
    precision = fast_precision(torch.device("cpu"))
    found: dict[str, dict[str, list[Learned]]] = {}
    for minutes in given.minutes:
        rows: dict[str, list[Learned]] = {"dragoman": [], "loop around Marian": []}
        for seed in given.seeds:
            changes = {
                "max_minutes": minutes,
                "precision": precision,
                "seed": seed,
                "validation_sentences": 0,
            }
            changes["checkpoint_minutes"] = min(0.25, minutes / 12)
            recipe = read_recipe(given.recipe).with_changes(
                [f"training.{name}={value}" for name, value in changes.items()]
            )
            rows["dragoman"].append(ours(corpus, recipe, texts))
            rows["loop around Marian"].append(marian(corpus, recipe, texts))
        found[f"{minutes:g} minutes"] = rows
        print(f"\n{minutes:g} minutes, {threads} threads, {precision}, seeds {given.seeds}")
        for name, side in rows.items():
            scores = ", ".join(f"{one.bleu:.2f}" for one in side)
            mean = statistics.mean(one.bleu for one in side)
            updates = statistics.mean(one.updates for one in side)
            print(f"  {name:20} {mean:6.2f} BLEU ({scores}), {updates:,.0f} updates")
    RESULTS.mkdir(exist_ok=True)
    record = {
        "settings": {
            "recipe": given.recipe,
            "seeds": given.seeds,
            "threads": threads,
            "precision": precision,
        },
        "provenance": provenance(),
        "found": {
            minutes: {name: [vars(one) for one in side] for name, side in rows.items()}
            for minutes, rows in found.items()
        },
    }
    (RESULTS / "quality.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
