"""`dragoman demo` on Multi30k: its score, its time; its model in exact mode and in bf16."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import done, finish, start

from dragoman.pipeline import evaluate
from dragoman.text.lines import read_units
from dragoman.translator import Translator

SEED = 2
WANTED_BLEU = 35.0  # cased, detokenized, test_2016_flickr
TRAINING_SECONDS = 600.0
PATIENCE_SECONDS = 1_200.0
# I31
BLEU_BAND, CHRF_BAND = 0.2, 0.3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(PATIENCE_SECONDS + 600)]


@pytest.fixture(scope="module")
def demo(data_root, tmp_path_factory) -> tuple[dict[str, Any], Path]:
    """What the demonstration said, and its directory."""
    if not (data_root / "multi30k" / "raw" / "train.en.gz").is_file():
        pytest.skip("DRAGOMAN_DATA has no multi30k/raw")
    out = tmp_path_factory.mktemp("demo") / "demo"
    threads = str(min(2, os.cpu_count() or 1))
    environment = {"OMP_NUM_THREADS": threads, "DRAGOMAN_DATA": str(data_root)}
    process = start("demo", "--out", out, "--seed", SEED, "--json", environment=environment)
    result = finish(process, patience_seconds=PATIENCE_SECONDS)
    assert result.code == 0, result.err
    return json.loads(result.text), out


@pytest.fixture(scope="module")
def held_out(data_root) -> tuple[list[str], list[str]]:
    folder = data_root / "multi30k" / "raw"
    sources, references = (list(read_units(folder / f"test_2016_flickr.{code}.gz")) for code in ("en", "de"))
    return sources, references


def test_the_demonstration_reaches_its_score(demo):
    record, _ = demo
    scores = {score["name"]: score for score in record["scores"]}
    print({name: round(score["value"], 2) for name, score in scores.items()}, record["training_seconds"])
    assert record["data"] == "Multi30k"
    assert scores["BLEU"]["segments"] == 1000
    assert "tok:13a" in scores["BLEU"]["signature"]
    assert scores["BLEU"]["value"] >= WANTED_BLEU, scores["BLEU"]
    # The limit is checked between updates; averaging comes after it.
    assert record["training_seconds"] <= TRAINING_SECONDS


@pytest.fixture(scope="module", params=["auto", "exact"])
def translator(request, demo) -> Translator:
    return Translator.load(demo[1] / "run", engine=request.param)


@pytest.fixture(scope="module")
def units(translator, held_out) -> list[str]:
    """All of them; of the slow engine, some."""
    return held_out[0] if translator.engine == "auto" else held_out[0][::10]


@pytest.fixture(scope="module")
def whole(translator, units):
    torch.set_num_threads(1)
    return {t.source: t for t in translator.translate(units)}


LONG = "A man in a blue shirt and a woman with a red hat are standing in front of a very old house and "
ORDERS: dict[str, Callable[[list[str]], list[str]]] = {
    "as they are": list,
    "sorted": sorted,
    "reversed": lambda units: units[::-1],
    "shuffled": lambda units: random.Random(1).sample(units, len(units)),
    "among long ones": lambda units: [text for unit in units for text in (unit, LONG * 3)],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rows", [7, 64, None])
def test_i20_any_batch_and_order(translator, whole, units, rows, order):
    texts = ORDERS[order](units[: 200 if order == "among long ones" else None])
    for translation in replace(translator, batch_rows=rows).translate(texts):
        if translation.source in whole:
            assert translation == whole[translation.source]


def test_i20_alone(translator, whole):
    for unit, translation in whole.items():
        assert translator.translate([unit]) == [translation]


def test_i24_score_reproduces_each_reported_score(demo, held_out, tmp_path):
    source = tmp_path / "in.en"
    source.write_text("".join(f"{unit}\n" for unit in held_out[0]), encoding="utf-8")
    done("translate", demo[1] / "run", source, "--json", "--out", tmp_path / "out.jsonl")
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    scores = done("score", demo[1] / "run", tmp_path / "out.jsonl", "--pieces", "--json").records
    kept = [k for k, record in enumerate(records) if not record["flags"]]
    assert len(kept) > 980
    wanted = [records[k]["score"] for k in kept]
    assert [scores[k]["score"] for k in kept] == pytest.approx(wanted, abs=1e-4)


def test_i31_bf16_is_within_its_band(demo, held_out):
    exact, fast = (
        evaluate(demo[1] / "run", *held_out, precision=precision, target_language="de")
        for precision in ("fp32", "bf16")
    )
    pairs = zip(exact.translations, fast.translations, strict=True)
    differing = sum(one.text != other.text for one, other in pairs)
    found = [[round(score.value, 2) for score in result.scores] for result in (exact, fast)]
    print(f"fp32 {found[0]}, bf16 {found[1]}, {differing} of {len(exact.translations)} lines differ")
    assert abs(exact.scores[0].value - fast.scores[0].value) <= BLEU_BAND
    assert abs(exact.scores[1].value - fast.scores[1].value) <= CHRF_BAND
