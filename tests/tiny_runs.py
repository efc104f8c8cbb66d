"""A made-up language pair, and the smallest models and runs on it, for the tests of training and of what uses it.

The source counts in English words; the target is the same numbers in reverse order, in made-up words.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman import pipeline
from dragoman.bundle import BundleFacts, write_bundle
from dragoman.data.batches import BatchLoader, BatchPlan, dev_batches
from dragoman.data.prepare import prepare
from dragoman.data.prepared import PreparedCorpus
from dragoman.fidelity.measure import measure
from dragoman.model.config import ModelConfig, ModelShape
from dragoman.model.transformer import Transformer
from dragoman.recipe import BatchSection, OptimizerSection, Recipe, SearchSection, TrainingSection
from dragoman.standing import Standing, standing
from dragoman.text.lines import read_units
from dragoman.text.subwords import Subwords
from dragoman.training.checkpoint import Checkpoint, checkpoint_names, open_checkpoint
from dragoman.training.events import Event, Saved, Stepped
from dragoman.training.trainer import Task

SOURCE_WORDS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
TARGET_WORDS = ["nul", "een", "twa", "tri", "kvar", "pent", "ses", "sep", "okt", "nau", "dek", "elf", "tolv"]


def pairs(count: int, *, seed: int) -> list[tuple[str, str]]:
    """Pairs of two to seven words; one source in seven ends in a full stop, as its target does."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        numbers = [draw.randrange(len(SOURCE_WORDS)) for _ in range(draw.randint(2, 7))]
        stop = " ." if draw.random() < 1 / 7 else ""
        source = " ".join(SOURCE_WORDS[n] for n in numbers) + stop
        made.append((source, " ".join(TARGET_WORDS[n] for n in reversed(numbers)) + stop))
    return made


def write_pairs(folder: Path, made: list[tuple[str, str]], name: str) -> tuple[Path, Path]:
    """Two files, `name.en` and `name.xx`."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{name}.en", folder / f"{name}.xx"
    for path, units in zip(paths, zip(*made, strict=True), strict=True):
        path.write_text("".join(f"{unit}\n" for unit in units), encoding="utf-8", newline="\n")
    return paths


def counting(count: int, *, seed: int) -> list[str]:
    """Lines of a text that has no translation: each counts on from some number, four to eight words."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        start, length = draw.randrange(len(SOURCE_WORDS)), draw.randint(4, 8)
        made.append(" ".join(SOURCE_WORDS[(start + k) % len(SOURCE_WORDS)] for k in range(length)))
    return made


def make_one_text(folder: Path, *, train: int = 160, dev: int = 16, seed: int = 1) -> PreparedCorpus:
    """A prepared corpus of such lines in `folder`/prepared."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "train.en", folder / "dev.en"
    for path, lines in zip(paths, (counting(train, seed=seed), counting(dev, seed=seed + 1000)), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return prepare(paths[0], out=folder / "prepared", one_text=True, dev_source=paths[1], vocab_size=320)


def make_corpus(
    folder: Path, *, train: int = 240, dev: int = 16, seed: int = 1, joint: bool = True, vocab_size: int = 340
) -> PreparedCorpus:
    """A prepared corpus of made-up pairs in `folder`/prepared."""
    source, target = write_pairs(folder, pairs(train, seed=seed), "train")
    dev_source, dev_target = write_pairs(folder, pairs(dev, seed=seed + 1000), "dev")
    return prepare(
        source,
        target,
        out=folder / "prepared",
        dev_source=dev_source,
        dev_target=dev_target,
        vocab_size=vocab_size,
        joint=joint,
    )


def tiny_recipe(*changes: str) -> Recipe:
    """N 1, d_model 16; a batch is about a dozen pairs, and an epoch of 240 pairs about twenty batches."""
    recipe = Recipe(
        name="test",
        model=ModelShape(N=1, d_model=16, d_ff=32, h=2),
        batch=BatchSection(source_tokens=100, target_tokens=100, max_length=40, tokens_at_once=100),
        optimizer=OptimizerSection(warmup_steps=20, factor=2.0),
        training=TrainingSection(
            max_steps=24, checkpoint_steps=8, keep_checkpoints=2, validation_sentences=0, log_steps=1
        ),
        search=SearchSection(average_checkpoints=2),
    )
    return recipe.with_changes(changes)


def tiny_facts(corpus: PreparedCorpus, recipe: Recipe | None = None, **changes: Any) -> BundleFacts:
    """What goes into a bundle of a model for this corpus; `changes` are fields of the model's sizes."""
    recipe = recipe or tiny_recipe()
    shape = recipe.model.model_copy(update={"shared_embeddings": corpus.joint, **changes})
    config = ModelConfig.from_shape(
        shape,
        vocab_size=corpus.target_subwords.vocab_size,
        source_vocab_size=corpus.source_subwords.vocab_size,
    )
    return BundleFacts(
        config,
        recipe,
        corpus.source_subwords,
        corpus.target_subwords,
        "en",
        "xx",
        {"pairs": 3},
        standing=standing(recipe),
    )


def random_weights(facts: BundleFacts, *, seed: int = 1) -> dict[str, Tensor]:
    """Weights of an untrained model."""
    model = Transformer(facts.config, seed=seed)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def write_random_bundle(directory: Path, facts: BundleFacts, *, seed: int = 1, step: int = 7) -> Path:
    """An untrained model as a bundle."""
    write_bundle(directory, facts, random_weights(facts, seed=seed), step=step)
    return directory


def sha256_of(tensors: Mapping[str, Tensor]) -> str:
    """One digest over names and bytes of tensors."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def last_checkpoint(run: Path) -> Checkpoint:
    """The newest checkpoint of a run."""
    folder = run / "checkpoints"
    return open_checkpoint(folder / checkpoint_names(folder)[-1])


def state_digests(checkpoint: Checkpoint) -> tuple[str, str]:
    """SHA-256 of the weights and of the optimizer's moments."""
    files = {record.name: record.sha256 for record in checkpoint.bundle.manifest.files}
    return files["model.safetensors"], files["optimizer.safetensors"]


def logged(run: Path, kind: str) -> list[dict[str, Any]]:
    """Events of one kind from a run's log."""
    lines = (run / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def make_task(
    corpus: PreparedCorpus, checkpoints: Path, recipe: Recipe, *, prefetch: int = 0, validate: bool = True
) -> Task:
    """What a trainer works on, without the pipeline around it."""
    plan = BatchPlan.of(
        corpus.train,
        source_tokens=recipe.batch.source_tokens,
        target_tokens=recipe.batch.target_tokens,
        seed=recipe.training.seed,
        max_length=recipe.batch.max_length,
    )
    return Task(
        loader=BatchLoader(corpus.train, plan, prefetch=prefetch),
        dev=(lambda: dev_batches(corpus.dev, 100)) if validate else None,
        translate_dev=None,
        facts=tiny_facts(corpus, recipe),
        checkpoints=checkpoints,
    )


class Killed(BaseException):
    """Stands for SIGKILL: training gets no chance to do anything more."""


def terminate_at(*steps: int) -> Callable[[Event], None]:
    """Sends this process SIGTERM when one of these updates is done."""

    def watch(event: Event) -> None:
        if isinstance(event, Stepped) and event.step in steps:
            os.kill(os.getpid(), signal.SIGTERM)

    return watch


def kill_at_save(step: int) -> Callable[[Event], None]:
    """Ends the run as soon as a checkpoint of this update or a later one is reported saved."""

    def watch(event: Event) -> None:
        if isinstance(event, Saved) and event.step >= step:
            raise Killed

    return watch


@pytest.fixture
def quick_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that make many runs: nothing is forced to the disk, which no test can see anyway, and how a recipe stands
    to the paper, which takes longer than all updates of so small a run, is measured once for runs with the same one.
    """
    make_runs_quick(monkeypatch)


def make_runs_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `quick_runs`, for what is made before a test begins."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    monkeypatch.setattr(pipeline, "measure", _measured_once)


_measured: dict[tuple[str, str], Standing] = {}


def _measured_once(recipe: Recipe, *, subwords: Subwords) -> Standing:
    key = recipe.model_dump_json(), subwords.digest
    if key not in _measured:
        _measured[key] = measure(recipe, subwords=subwords)
    return _measured[key]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    """240 training and 16 dev pairs, one vocabulary."""
    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    """40 training and 6 dev pairs: an epoch is about five batches."""
    return make_corpus(tmp_path_factory.mktemp("small"), train=40, dev=6, vocab_size=320)


@pytest.fixture(scope="session")
def one_text(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    """160 training and 16 dev lines that have no translation."""
    return make_one_text(tmp_path_factory.mktemp("one-text"))


@pytest.fixture(scope="session")
def separate_corpus(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    """The same pairs with a vocabulary for each language, of different sizes."""
    folder = tmp_path_factory.mktemp("separate")
    source, target = write_pairs(folder, pairs(240, seed=1), "train")
    subwords = (
        Subwords.train(list(read_units(source)), vocab_size=310),
        Subwords.train(list(read_units(target)), vocab_size=300),
    )
    for side, model in zip(("source", "target"), subwords, strict=True):
        model.save(folder / f"{side}.model")
    return prepare(
        source,
        target,
        out=folder / "prepared",
        dev_size=16,
        joint=False,
        subwords=(folder / "source.model", folder / "target.model"),
    )


@pytest.fixture(scope="session")
def bundle_maker(tmp_path_factory: pytest.TempPathFactory, corpus: PreparedCorpus) -> Callable[..., Path]:
    """Writes a random model of the corpus into a fresh directory at each call."""

    def make(**options: Any) -> Path:
        return write_random_bundle(tmp_path_factory.mktemp("bundle") / "model", tiny_facts(corpus), **options)

    return make
