"""Reports: of recipes, of models, of runs; and what of a model is no longer as it was recorded."""

from __future__ import annotations

import json

import pytest
from tiny_runs import tiny_facts, tiny_recipe, write_random_bundle

from dragoman.bundle import open_bundle
from dragoman.errors import CheckpointError, ConfigError
from dragoman.fidelity.measure import measure
from dragoman.fidelity.report import Report, report_on, table
from dragoman.recipes.named import base, demo
from dragoman.search import task
from dragoman.standing import LEVELS, Finding, Standing


def test_of_a_recipe_by_name_and_by_file(tmp_path):
    (tmp_path / "mine.toml").write_text(demo().to_toml(), encoding="utf-8")
    named, filed = report_on("demo", []), report_on(str(tmp_path / "mine.toml"), [])
    assert named == filed == Report("demo", "recipe", measure(demo()))
    assert named.banner == measure(demo()).banner("demo")
    assert named.changed == ()
    changed = report_on("base", ["optimizer.beta_2=0.997"])
    assert [f.choice for f in changed.standing.departures] == ["optimizer.beta_2"]


def test_of_a_model_by_its_own_sizes(tmp_path, corpus):
    """What counts is the model that is there, whatever its recipe says of sizes."""
    facts = tiny_facts(corpus, tiny_recipe(), tied_output=False)
    report = report_on(str(write_random_bundle(tmp_path / "m", facts)), [])
    assert report.kind == "model"
    assert [f.choice for f in report.standing.departures] == ["embedding tying"]


def test_of_a_run_with_a_model_and_of_one_without(tmp_path, corpus):
    write_random_bundle(tmp_path / "run" / "model", tiny_facts(corpus))
    assert report_on(str(tmp_path / "run"), []).kind == "model"
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "recipe.toml").write_text(tiny_recipe().to_toml(), encoding="utf-8")
    assert report_on(str(tmp_path / "begun"), []) == Report("test", "recipe", measure(tiny_recipe()))


def test_a_model_that_is_no_longer_whole_is_not_taken_for_a_run(tmp_path, corpus):
    write_random_bundle(tmp_path / "m", tiny_facts(corpus))
    (tmp_path / "m" / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match="no model at"):
        report_on(str(tmp_path / "m"), [])


def test_what_is_no_longer_as_recorded(tmp_path, corpus, monkeypatch):
    facts = tiny_facts(corpus)
    write_random_bundle(tmp_path / "m", facts)
    assert open_bundle(tmp_path / "m").manifest.fidelity == facts.standing
    assert report_on(str(tmp_path / "m"), []).changed == ()
    monkeypatch.setattr(task, "length_limits", lambda lengths, **_: [length + 70 for length in lengths])
    report = report_on(str(tmp_path / "m"), [])
    assert [(f.choice, f.here) for f in report.changed] == [("search.max_extra", 70)]
    assert report.as_dict()["changed"] == ["search.max_extra"]


def test_what_is_neither(tmp_path):
    with pytest.raises(ConfigError, match="no recipe and no directory 'frob'") as caught:
        report_on("frob", [])
    assert "base, big" in str(caught.value.cure)
    with pytest.raises(ConfigError, match="missing.toml"):
        report_on("missing.toml", [])
    with pytest.raises(CheckpointError, match="no model at"):
        report_on(str(tmp_path), [])


def test_a_model_cannot_be_changed(tmp_path, corpus):
    write_random_bundle(tmp_path / "m", tiny_facts(corpus))
    with pytest.raises(ConfigError, match="--set changes recipes only"):
        report_on(str(tmp_path / "m"), ["optimizer.factor=2"])


def test_a_table_has_every_choice_once_under_its_level():
    standing = measure(base())
    lines = list(table(standing))
    assert [line for line in lines if not line.startswith(" ")] == list(LEVELS)
    assert len(lines) == len(standing.findings) + len(LEVELS)
    for finding in standing.findings:
        [line] = [line for line in lines if f"  {finding.section:5}  {finding.choice} " in line]
        assert line.strip().startswith(finding.verdict)


def test_a_line_says_the_paper_where_it_says_something_else():
    findings = (
        Finding("norm place", "architecture", "3.1", "after the sum", "before it", "departure"),
        Finding("output map", "architecture", "3.4", "left open; as X: no bias", "no bias", "silent"),
        Finding("subwords.joint", "recipe", "5.1", True, False, "departure"),
        Finding("training.max_minutes", "scale", "5.2", None, 9.75, "scaled"),
        Finding("search.beam_size", "scale", "6.1", 4, 4, "as published"),
    )
    assert list(table(Standing("base", findings))) == [
        "architecture",
        "  departure     3.1    norm place            before it  [paper: after the sum]",
        "  silent        3.4    output map            no bias  [paper: left open; as X]",
        "recipe",
        "  departure     5.1    subwords.joint        no  [paper: yes]",
        "scale",
        "  scaled        5.2    training.max_minutes  9.75  [paper: none]",
        "  as published  6.1    search.beam_size      4",
    ]


def test_plain_values_are_json_and_whole():
    report = report_on("demo", [])
    record = json.loads(json.dumps(report.as_dict()))
    assert record == report.as_dict()
    assert record["departures"] == ["optimizer.cooldown 0.6 (paper 0.0, 5.3)"]
    assert [Finding(**choice) for choice in record["choices"]] == list(report.standing.findings)
    assert (record["name"], record["kind"], record["nearest"]) == ("demo", "recipe", "base")
