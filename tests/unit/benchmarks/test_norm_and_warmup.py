"""The short mode of the measurement of norm places and warm-ups: every run, once, and a table of them."""

from __future__ import annotations

import json

import norm_and_warmup
import pytest
from norm_and_warmup import FULL, NORMS, SHORT, outcome, recipe_of, table

pytestmark = pytest.mark.usefixtures("quick_runs")


def test_the_short_mode_makes_every_run_once_and_tells_them_all(tmp_path, capsys, monkeypatch):
    norm_and_warmup.main(["--short", "--seeds", "1", "--out", str(tmp_path)])
    first = capsys.readouterr().out
    lines = (tmp_path / "norm_and_warmup.jsonl").read_text(encoding="utf-8").splitlines()
    assert (
        len(lines)
        == len(NORMS) * len(SHORT.warmups)
        == first.count("\n| post-norm") + first.count("\n| pre-norm")
    )
    monkeypatch.setattr("norm_and_warmup.outcome", lambda corpus, recipe: pytest.fail("made again"))
    norm_and_warmup.main(["--short", "--seeds", "1", "--out", str(tmp_path)])
    assert capsys.readouterr().out == first
    record = json.loads((tmp_path / "norm_and_warmup.json").read_text(encoding="utf-8"))
    assert [(run["norm"], run["warmup"]) for run in record["runs"]] == [
        (norm, warmup) for norm in NORMS for warmup in SHORT.warmups
    ]
    assert all(run["updates"] == SHORT.updates for run in record["runs"])


def test_runs_differ_in_norm_warm_up_and_seed_alone():
    norms = list(NORMS)
    base = recipe_of(FULL, norms[0], 100, 1, "fp32").model_dump()
    other = recipe_of(FULL, norms[1], 400, 2, "fp32").model_dump()
    assert base["departures"]["architecture"] == ()
    assert [d["name"] for d in other["departures"]["architecture"]] == ["pre_norm"]
    for section, field in (
        ("departures", "architecture"),
        ("optimizer", "warmup_steps"),
        ("training", "seed"),
    ):
        assert base[section].pop(field) != other[section].pop(field)
    assert base == other
    assert (base["optimizer"]["factor"], base["optimizer"]["cooldown"], base["model"]["N"]) == (1.0, 0.0, 6)


def test_a_rate_that_no_model_stands_is_told_as_diverged(tmp_path):
    corpus = norm_and_warmup.prepared_grammar(tmp_path, pairs=200, test_pairs=10, vocab_size=340)
    recipe = recipe_of(SHORT, next(iter(NORMS)), 1, 1, "fp32").with_changes(["optimizer.factor=1e6"])
    found = outcome(corpus, recipe)
    assert found["diverged"]
    assert found["exact"] == 0.0


def test_the_table_tells_what_ended_and_what_diverged():
    run = {"norm": "pre-norm", "warmup": 1_600, "highest_rate": 0.0031, "updates": 9, "seconds": 1.0}
    well = run | {"perplexity": 1.5, "exact": 80.0, "diverged": False}
    lost = run | {"perplexity": None, "exact": 0.0, "diverged": True}
    last = table([well, lost, well | {"perplexity": 1.7, "exact": 40.0}]).splitlines()[-1]
    assert last == "| pre-norm | 1,600 | 0.0031 | 40.0 (80.0, 0.0, 40.0) | 1.60 (1.50, 1.70) | 1 of 3 |"
    assert "| none |" in table([lost])
