"""What measurements of learning share: runs are those of `dragoman train`, results are kept one by one."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from learning import Kept, learned, markdown, perplexity_of_frequencies, prepared_grammar, shown, translations
from tiny_runs import last_checkpoint, tiny_recipe

from dragoman.errors import NonFiniteLoss
from dragoman.pipeline import train
from dragoman.recipe import DepartureSection
from dragoman.translator import Translator
from dragoman.variants.departures import PreNorm

pytestmark = pytest.mark.usefixtures("quick_runs")


@pytest.mark.parametrize("departures", [(), (PreNorm(),)], ids=["paper", "pre_norm"])
def test_a_run_is_that_of_dragoman_train(corpus, tmp_path, departures):
    changes = (
        "optimizer.cooldown=0.5",
        "model.P_drop=0.2",
        "search.average_checkpoints=1",
        "search.alpha=0.0",
    )
    recipe = tiny_recipe(*changes).model_copy(
        update={"departures": DepartureSection(architecture=departures)}
    )
    run = train(corpus, tmp_path / "run", recipe=recipe)
    ours = learned(corpus, recipe)
    assert ours.updates == recipe.training.max_steps
    last = last_checkpoint(run.directory).bundle.weights()
    assert all(torch.equal(weight, last[name]) for name, weight in ours.model.named_parameters())
    sources = ["one two three", "six"]
    theirs = [t.text for t in Translator.load(run.model).translate(sources)]
    assert translations(ours.model, corpus, recipe, sources) == theirs


def test_a_run_whose_loss_is_not_finite_ends_with_the_updates_before(corpus, monkeypatch):
    made = []

    def update(model, optimizer, batch, recipe, step, cooldown):
        if step == 4:
            raise NonFiniteLoss("no number", cure="lower the rate")
        made.append(step)

    monkeypatch.setattr("learning.update", update)
    assert learned(corpus, tiny_recipe()).updates == 3
    assert made == [1, 2, 3]


def test_a_result_is_measured_once_for_all_that_was_asked(tmp_path):
    kept, asked = Kept(tmp_path / "new" / "runs.jsonl"), []

    def measure(value):
        def found():
            asked.append(value)
            return {"value": value}

        return found

    assert kept.result({"seed": 1}, measure(10)) == {"value": 10}
    assert kept.result({"seed": 1}, measure(99)) == {"value": 10}
    assert kept.result({"seed": 1, "updates": 5}, measure(20)) == {"value": 20}
    assert Kept(kept.path).result({"updates": 5, "seed": 1}, measure(99)) == {"value": 20}
    assert asked == [10, 20]
    lines = [json.loads(line) for line in kept.path.read_text(encoding="utf-8").splitlines()]
    assert [line["found"]["value"] for line in lines] == [10, 20]
    assert all(line["provenance"] for line in lines)


def test_a_line_that_was_cut_off_is_measured_again_and_harms_no_other(tmp_path):
    kept = Kept(tmp_path / "runs.jsonl")
    for seed in (1, 2):
        kept.result({"seed": seed}, lambda seed=seed: {"value": seed})
    kept.path.write_bytes(kept.path.read_bytes()[:-20])
    assert kept.result({"seed": 2}, lambda: {"value": 22}) == {"value": 22}
    assert kept.result({"seed": 1}, dict) == {"value": 1}
    assert kept.result({"seed": 2}, dict) == {"value": 22}


def test_what_is_not_finished_is_not_kept(tmp_path):
    kept = Kept(tmp_path / "runs.jsonl")

    def stopped():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.result({"seed": 1}, stopped)
    assert not kept.path.exists()


def test_perplexity_of_frequencies_by_hand():
    train_shards = SimpleNamespace(target_ids=np.array([0, 0, 0, 1]))
    dev = SimpleNamespace(target_ids=np.array([0, 2]))
    # Counts 4, 2, 1 of 7.
    assert perplexity_of_frequencies(train_shards, dev, 3) == pytest.approx(math.sqrt(7 / 4 * 7))


def test_the_grammar_is_prepared_once(tmp_path):
    sizes = {"pairs": 100, "test_pairs": 5, "vocab_size": 340}
    first = prepared_grammar(tmp_path, **sizes)
    stamp = (first.directory / "manifest.json").stat().st_mtime_ns
    again = prepared_grammar(tmp_path, **sizes)
    assert (again.directory / "manifest.json").stat().st_mtime_ns == stamp
    assert (len(again.train), len(again.dev)) == (100, 5)
    assert len((again.directory.parent / "test.de").read_text(encoding="utf-8").splitlines()) == 5
    assert prepared_grammar(tmp_path, **(sizes | {"pairs": 90})).directory != first.directory


def test_tables_and_values():
    assert markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
    assert shown([2.0]) == "2.0"
    assert shown([1.0, 2.0, 6.0]) == "3.0 (1.0, 2.0, 6.0)"
    assert shown([1.0, 1e6], 2) == "5.00e+05 (1.00, 1.00e+06)"
