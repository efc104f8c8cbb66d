"""`dragoman fidelity` from the command line."""

from __future__ import annotations

import pytest
from command_line import done, refused

from dragoman.recipes.systems import SYSTEMS
from dragoman.search import length


@pytest.mark.parametrize("name", ["base", "big", "big-en-fr"])
def test_the_papers_recipes_depart_in_nothing(name):
    result = done("fidelity", name)
    assert result.lines[0].endswith(f"architecture and recipe as published, scale: as published ({name})")
    assert result.lines[-1] == "departures: none"
    verdicts = {line[2:14].strip() for line in result.lines[1:-1] if line.startswith("  ")}
    assert verdicts == {"as published", "silent"}
    assert result.err == ""


@pytest.mark.parametrize(
    ("name", "share"), [("brief", 0.6), ("quick", 0.6), ("laptop", 0.6), ("demo", 0.6), ("demo-grammar", 0.3)]
)
def test_the_demonstrations_depart_in_one_thing(name, share):
    lines = done("fidelity", name).lines
    assert lines[-2:] == ["departures: 1", f"  optimizer.cooldown {share} (paper 0.0, 5.3)"]


@pytest.mark.parametrize("name", ["small", "tiny"])
def test_smaller_ones_are_scaled(name):
    lines = done("fidelity", name).lines
    assert lines[0] == f"Vaswani et al. 2017: architecture and recipe as published, scale: {name}"
    assert lines[-1] == "departures: none"
    assert any(line.startswith("  scaled") for line in lines)


def test_as_json():
    record = done("fidelity", "base", "--set", "optimizer.beta_2=0.997", "--json").json
    assert record["departures"] == ["optimizer.beta_2 0.997 (paper 0.98, 5.3)"]
    assert {choice["level"] for choice in record["choices"]} == {"architecture", "recipe", "scale"}


def test_code_that_is_another_is_told_of_a_recipe(monkeypatch):
    monkeypatch.setattr(length, "length_penalty", lambda n, alpha: float(n**alpha))
    lines = done("fidelity", "base").lines
    assert lines[-2:] == ["departures: 1", "  length penalty n^alpha (paper ((5 + n) / 6)^alpha, 6.1)"]
    assert "recipe length penalty n^alpha" in done("recipe", "show", "base").err


def test_of_a_run_and_its_model_and_what_has_changed_since(lab, monkeypatch):
    run, model = done("fidelity", lab.run), done("fidelity", lab.run / "model")
    assert run.out == model.out
    assert run.lines[0] == "Vaswani et al. 2017: architecture and recipe as published, scale: test"
    assert run.err == ""
    monkeypatch.setattr(length, "length_penalty", lambda n, alpha: float(n**alpha))
    assert "when this model was trained, length penalty was not n^alpha" in done("fidelity", lab.run).err


def test_like_another_system_and_where_that_was_read():
    lines = done("fidelity", "--like", "joeynmt").lines
    assert "scale: joeynmt-base" in lines[0]
    assert (
        "  departure     3.1    norm place                  before the sub-layer  [paper: after the sum]"
        in lines
    )
    at = lines.index("what it does otherwise still:")
    assert lines[at - 1].startswith("read from: github.com/joeynmt/joeynmt, ")
    assert lines[at + 1 :] == [f"  {said}" for said in SYSTEMS["joeynmt"]().not_expressed]


def test_like_as_json_and_with_a_field_changed():
    changed = ("--set", "departures.search=none")
    record = done("fidelity", "--like", "joeynmt", *changed, "--json").json
    system = SYSTEMS["joeynmt"]()
    assert (record["kind"], record["name"], record["source"]) == ("system", "joeynmt-base", system.source)
    assert record["not_expressed"] == list(system.not_expressed)
    assert any(said.startswith("smoothing form") for said in record["departures"])
    assert not any("max_extra" in said for said in record["departures"])
    plain = done("fidelity", "base", "--json").json
    assert (plain["source"], plain["not_expressed"]) == (None, [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["frob"], ["frob", "base"]),
        (["missing.toml"], ["missing.toml"]),
        (["base", "--set", "frob"], ["section.field=value"]),
        (["base", "--set", "model.frob=1"], ["model.frob"]),
        (["--like", "frob"], ["frob", *SYSTEMS]),
        (["base", "--like", "torch"], ["one of RECIPE|MODEL|RUN and --like"]),
        ([], ["one of RECIPE|MODEL|RUN and --like"]),
        (["--like", "torch", "--set", "frob"], ["section.field=value"]),
    ],
)
def test_what_is_no_recipe_is_refused(arguments, said):
    message = refused(2, "fidelity", *arguments)
    assert all(part in message for part in said), message


def test_a_damaged_model_is_refused(lab, tmp_path):
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    assert "manifest" in refused(4, "fidelity", tmp_path)
    (tmp_path / "empty").mkdir()
    assert "no model at" in refused(4, "fidelity", tmp_path / "empty")
