"""Models of one text learn real captions: they know what comes next, and what is hidden, better than n-grams do.

The limit is in updates, not minutes: what is learned must not depend on what else the machine is doing.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import random
from pathlib import Path

import pytest
import torch
from command_line import Ended, finish, start

from dragoman.data.prepared import PreparedCorpus, open_prepared
from dragoman.language.masked import MaskedLanguageModel
from dragoman.machine import fast_precision
from dragoman.predecessors.ngram import NGrams
from dragoman.text.lines import read_units
from dragoman.text.subwords import Subwords

UPDATES = 1_800
PLACES = 400
PATIENCE_SECONDS = 2_400.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * PATIENCE_SECONDS)]


def command(*arguments: object) -> Ended:
    """A command of its own, without the checks of shapes that are on in this process."""
    process = start(*arguments, environment={"OMP_NUM_THREADS": str(min(2, os.cpu_count() or 1))})
    result = finish(process, patience_seconds=PATIENCE_SECONDS)
    assert result.code == 0, result.err
    return result


@pytest.fixture(scope="module")
def folder(data_root, tmp_path_factory) -> Path:
    """The English captions of Multi30k, prepared, and its test set."""
    folder = tmp_path_factory.mktemp("captions")
    raw = data_root / "multi30k" / "raw"
    if not (raw / "train.en.gz").is_file():
        pytest.skip("there is no multi30k/raw")
    for name in ("train", "val", "test_2016_flickr"):
        (folder / f"{name}.en").write_bytes(gzip.decompress((raw / f"{name}.en.gz").read_bytes()))
    command(
        *("prepare", folder / "train.en", "--one-text", "--dev-source", folder / "val.en"),
        *("--vocab-size", 4_000, "--out", folder / "prepared"),
    )
    return folder


@pytest.fixture(scope="module")
def corpus(folder) -> PreparedCorpus:
    return open_prepared(folder / "prepared")


@pytest.fixture(scope="module")
def trigrams(corpus) -> NGrams:
    units = (corpus.train.source(k).tolist() for k in range(len(corpus.train)))
    return NGrams(units, order=3, vocab_size=corpus.source_subwords.vocab_size)


@pytest.fixture(scope="module")
def texts(folder) -> list[str]:
    return list(read_units(folder / "test_2016_flickr.en"))


def trained(folder: Path, recipe: str) -> Path:
    run = folder / recipe
    command(
        *("train", folder / "prepared", "--out", run, "--recipe", recipe, "--max-steps", UPDATES),
        *("--set", "training.max_minutes=none", "--set", "training.checkpoint_steps=50"),
        *("--precision", fast_precision(torch.device("cpu"))),
    )
    return run


def test_what_comes_next_is_known_better_than_by_trigrams(folder, corpus, trigrams, texts):
    run = trained(folder, "lm")
    rows = corpus.source_subwords.encode_batch(texts)
    log_p = sum(trigrams.log_probability([*row, Subwords.EOS_ID]) for row in rows)
    counted = math.exp(-log_p / sum(len(row) + 1 for row in rows))
    scored = command("evaluate", run, folder / "test_2016_flickr.en", "--json")
    scores = {score["name"]: score["value"] for score in json.loads(scored.text)}
    assert scores["perplexity a subword"] < 0.85 * counted, (scores, counted)


def test_what_is_hidden_is_known_better_than_from_what_stands_before(folder, corpus, trigrams, texts):
    """How it stands to trigrams that are told both sides as well is measured (benchmarks/language_models.py)."""
    model = MaskedLanguageModel.load(trained(folder, "masked-lm"))
    rows = corpus.source_subwords.encode_batch(texts)
    every = [(k, place) for k, row in enumerate(rows) for place in range(len(row))]
    places = random.Random(1).sample(every, PLACES)
    right = 0
    for k, place in places:
        p = trigrams.distribution([Subwords.BOS_ID, *rows[k][:place]])
        right += int(p.argmax()) == rows[k][place]
    known = sum(one.right for one in model.known_at(rows, places))
    assert known > right, (known, right)
