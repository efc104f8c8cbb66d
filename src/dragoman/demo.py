"""The demonstration: data, training, averaging, translation, score and examples in one go.

Paper: 5, 6.1
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dragoman.data.prepare import prepare
from dragoman.download import MULTI30K, fetch_files
from dragoman.errors import ConfigError, DragomanError
from dragoman.machine import fast_precision
from dragoman.pipeline import Evaluation, evaluate, train
from dragoman.recipes.choose import for_minutes
from dragoman.recipes.named import demo, demo_grammar, with_minutes
from dragoman.text.grammar.generate import write_corpus
from dragoman.text.lines import read_units
from dragoman.training.allocator import tune_process
from dragoman.training.events import Ended, Event
from dragoman.translator import usable_device

DATA_VARIABLE = "DRAGOMAN_DATA"
GRAMMAR_PAIRS = 60_000
GRAMMAR_TEST_PAIRS = 1_000
EXAMPLES = 6
_MARK = "demo.txt"  # a directory with this file is one that an earlier demonstration made


class DemoStopped(DragomanError):
    """A signal stopped the demonstration's training; what was trained is saved."""

    exit_code = 75


@dataclass(frozen=True)
class DemoData:
    """Files of a corpus: train, dev and test, two languages each."""

    name: str
    train: tuple[Path, Path]
    dev: tuple[Path, Path]
    test: tuple[Path, Path]


@dataclass(frozen=True)
class DemoResult:
    """What the demonstration shows at the end.

    Attributes:
        data: name of the corpus.
        out: directory of everything.
        evaluation: scores and translations of the test set.
        references: of the test set.
        training_seconds: of training alone.
    """

    data: str
    out: Path
    evaluation: Evaluation
    references: tuple[str, ...]
    training_seconds: float

    def as_record(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "data": self.data,
            "model": str(self.out / "run" / "model"),
            "standing": self.evaluation.standing,
            "training_seconds": self.training_seconds,
            "scores": [score.as_dict() for score in self.evaluation.scores],
        }

    def lines(self) -> list[str]:
        """The same for people: examples, scores, what to do next."""
        shown = ["", f"{self.data}, sentences the model has not seen:"]
        step = max(1, len(self.references) // EXAMPLES)
        for k in range(step // 2, len(self.references), step)[:EXAMPLES]:
            translation = self.evaluation.translations[k]
            shown += [
                f"  source     {translation.source}",
                f"  dragoman   {translation.text}",
                f"  reference  {self.references[k]}",
                "",
            ]
        shown += [score.format() for score in self.evaluation.scores]
        shown += [
            f"after {self.training_seconds / 60:.1f} minutes of training",
            self.evaluation.standing,
            "",
            "Next:",
            f"  translate your own sentences:  dragoman translate {self.out / 'run'}",
            "  train on your own texts:       dragoman prepare train.en train.de --out prepared",
            "                                 dragoman train prepared --out run",
            "  see what a recipe holds:       dragoman recipe show demo",
        ]
        return shown


def run_demo(
    out: Path,
    *,
    download: bool = False,
    grammar: bool = False,
    max_minutes: float | None = None,
    seed: int = 1,
    device: str = "cpu",
    say: Callable[[str], None],
    on_event: Callable[[Event], None] | None = None,
) -> DemoResult:
    """Runs the whole path.

    Args:
        out: directory to make; one that an earlier demonstration made is replaced.
        download: fetch Multi30k where `DRAGOMAN_DATA` has it not.
        grammar: use the embedded grammar in any case.
        max_minutes: of training; the recipe's own where None.
        seed: of everything random.
        device: where to compute.
        say: told what is going on.
        on_event: told of training's events.

    Raises:
        ConfigError: `out` is in the way, or an argument is not usable.
        DataError: a download failed or is not what it should be.
        DemoStopped: training was stopped by a signal.
    """
    if max_minutes is not None and not 0.0 < max_minutes < math.inf:
        raise ConfigError(
            f"there is no training for {max_minutes} minutes",
            where="max_minutes",
            cure="give a number of minutes over 0",
        )
    tune_process()
    place = usable_device(device)
    _make_place(out)
    data = _data(out, download=download, grammar=grammar, seed=seed, say=say)
    precision = fast_precision(place)
    on_grammar = data.name == "grammar"
    recipe = demo_grammar() if on_grammar else demo()
    corpus = prepare(
        data.train[0],
        data.train[1],
        out=out / "prepared",
        dev_source=data.dev[0],
        dev_target=data.dev[1],
        vocab_size=recipe.subwords.vocab_size,
        source_language="en",
        target_language="de",
        seed=seed,
    )
    say(corpus.report.rstrip("\n"))
    if not on_grammar:
        minutes = recipe.training.max_minutes if max_minutes is None else max_minutes
        recipe, _ = for_minutes(minutes, corpus, place, precision)
    elif max_minutes is not None:
        recipe = with_minutes(recipe, max_minutes)
    recipe = recipe.with_changes([f"training.seed={seed}", f"training.precision={precision}"])
    seconds = 0.0

    def told(event: Event) -> None:
        nonlocal seconds
        if isinstance(event, Ended):
            seconds = event.seconds
        if on_event is not None:
            on_event(event)

    run = train(corpus, out / "run", recipe=recipe, device=device, on_event=told)
    if run.model is None:
        raise DemoStopped(
            "the demonstration was stopped before its model was ready; what was trained is saved",
            cure=f"go on with: dragoman train {out / 'prepared'} --out {out / 'run'} --resume",
        )
    say("translating the test set")
    sources, references = (list(read_units(path)) for path in data.test)
    result = evaluate(run.model, sources, references, device=device)
    return DemoResult(data.name, out, result, tuple(references), seconds)


def _make_place(out: Path) -> None:
    made_before = (out / _MARK).is_file()
    if not made_before and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is in the way", cure="choose another directory with --out")
    if made_before:
        for name in ("prepared", "run", "grammar"):
            shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / _MARK).write_text("Made by `dragoman demo`, which may replace it.\n", encoding="utf-8")


def _data(out: Path, *, download: bool, grammar: bool, seed: int, say: Callable[[str], None]) -> DemoData:
    found = None if grammar else _multi30k(os.environ.get(DATA_VARIABLE))
    if found is not None:
        say(f"data: Multi30k English-German from {DATA_VARIABLE}")
        return found
    if download and not grammar:
        say(MULTI30K.notice)
        fetch_files(MULTI30K, out / "multi30k", say=say)
        return _files("Multi30k", out / "multi30k", "train", "val", "test_2016_flickr", ".gz")
    say(f"data: the built-in English-German grammar ({_why_grammar(asked=grammar)})")
    write_corpus(
        out / "grammar", train=GRAMMAR_PAIRS, dev=GRAMMAR_TEST_PAIRS, test=GRAMMAR_TEST_PAIRS, seed=seed
    )
    return _files("grammar", out / "grammar", "train", "dev", "test", "")


def _why_grammar(*, asked: bool) -> str:
    if asked:
        return "as asked"
    root = os.environ.get(DATA_VARIABLE)
    lacking = f"{root} has no multi30k/raw that is whole" if root else f"{DATA_VARIABLE} is not set"
    return f"{lacking}, and --download was not given"


def _multi30k(root: str | None) -> DemoData | None:
    if not root:
        return None
    data = _files("Multi30k", Path(root) / "multi30k" / "raw", "train", "val", "test_2016_flickr", ".gz")
    files = (*data.train, *data.dev, *data.test)
    return data if all(path.is_file() for path in files) else None


def _files(name: str, folder: Path, train: str, dev: str, test: str, suffix: str) -> DemoData:
    def both(split: str) -> tuple[Path, Path]:
        return folder / f"{split}.en{suffix}", folder / f"{split}.de{suffix}"

    return DemoData(name, both(train), both(dev), both(test))
