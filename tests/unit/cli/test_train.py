"""`dragoman train` from the command line; stopping it by a signal and going on."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time

import pytest
from command_line import PATIENCE_SECONDS, done, finish_after, refused, start

from dragoman.recipe import Recipe
from dragoman.training.checkpoint import open_checkpoint
from dragoman.translator import Translator

QUICK = ("--max-steps", 4, "--set", "training.checkpoint_steps=2")


def events(run):
    return [json.loads(line) for line in (run / "events.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_run_holds_recipe_log_checkpoints_and_model(lab):
    assert {path.name for path in lab.run.iterdir()} == {
        "recipe.toml",
        "events.jsonl",
        "checkpoints",
        "model",
    }
    assert Recipe.from_file(lab.run / "recipe.toml").training.max_steps == 200
    assert [e["step"] for e in events(lab.run) if e["event"] == "saved"] == [100, 200]
    Translator.load(lab.run)


def test_the_model_has_learned_something(lab):
    losses = [event["loss"] for event in events(lab.run) if event["event"] == "stepped"]
    assert len(losses) == 200
    assert losses[-1] < 0.5 * losses[0]


def test_what_is_said(lab, tmp_path):
    result = done("train", lab.prepared, "--out", tmp_path / "run", "--recipe", lab.recipe, *QUICK)
    assert result.out == b""
    for part in ("Vaswani et al. 2017", "at most 4 updates", "step 4: saved", "limit of updates"):
        assert part in result.err
    assert f"next: dragoman translate {tmp_path / 'run'} < input.txt" in result.err


def test_json(lab, tmp_path):
    run = tmp_path / "run"
    result = done("train", lab.prepared, "--out", run, "--recipe", lab.recipe, *QUICK, "--json")
    assert result.json == {"run": str(run), "model": str(run / "model"), "reason": "steps"}


def test_options_change_the_recipe(lab, tmp_path):
    done(
        *("train", lab.prepared, "--out", tmp_path / "run", "--recipe", lab.recipe, *QUICK),
        *("--seed", 7, "--precision", "bf16", "--max-minutes", 3, "--set", "training.eps_ls=0.2"),
        *("--threads", 1),
    )
    training = Recipe.from_file(tmp_path / "run" / "recipe.toml").training
    assert (training.seed, training.precision, training.max_minutes) == (7, "bf16", 3.0)
    assert (training.eps_ls, training.max_steps, training.checkpoint_steps) == (0.2, 4, 2)


def test_the_same_seed_gives_the_same_model(lab, tmp_path):
    models = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        run = tmp_path / name
        done("train", lab.prepared, "--out", run, "--recipe", lab.recipe, *QUICK, "--seed", seed)
        models.append((run / "model" / "model.safetensors").read_bytes())
    assert models[0] == models[1] != models[2]


def test_without_a_recipe_one_is_chosen_and_said(lab, tmp_path):
    shape = ("N=1", "d_model=16", "d_ff=16", "h=2")
    small = [part for field in shape for part in ("--set", f"model.{field}")]
    result = done("train", lab.prepared, "--out", tmp_path / "run", *QUICK, *small)
    assert "recipe laptop" in result.err
    assert "chosen for 300 pairs" in result.err
    assert re.search(r"about \d+(\.\d)? minutes expected; --recipe chooses another", result.err)


def test_minutes_end_a_run(lab, tmp_path):
    run = tmp_path / "run"
    result = done("train", lab.prepared, "--out", run, "--recipe", lab.recipe, "--max-minutes", 0.004)
    assert "time is up" in result.err
    assert (run / "model").is_dir()


def test_tensorboard_is_written_or_missed_in_words(lab, tmp_path, monkeypatch):
    import importlib

    real = importlib.import_module

    def without(name, *rest):
        if name == "torch.utils.tensorboard":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    command = ("train", lab.prepared, "--out", tmp_path / "run", "--recipe", lab.recipe, *QUICK)
    assert "dragoman[tensorboard]" in refused(6, *command, "--tensorboard")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--recipe", "frob"], 2, ["frob", "tiny"]),
        (["--recipe", "missing.toml"], 2, ["missing.toml"]),
        (["--set", "model.frob=1"], 2, ["model.frob", "d_model"]),
        (["--set", "model.N=none"], 2, ["field N"]),
        (["--set", "model.h=3"], 2, ["model"]),
        (["--set", "training.eps_ls=2"], 2, ["training.eps_ls"]),
        (["--set", "frob"], 2, ["frob", "section.field=value"]),
        (["--max-minutes", "0"], 2, ["training.max_minutes"]),
        (["--max-minutes", "nan"], 2, ["training.max_minutes"]),
        (["--max-steps", "0"], 2, ["max-steps"]),
        (["--device", "frob"], 2, ["frob", "--device cpu"]),
        (["--resume"], 2, ["no run to go on with"]),
    ],
)
def test_options_that_are_not_usable_are_refused_before_anything_is_written(
    lab, tmp_path, options, code, said
):
    recipe = [] if "--recipe" in options else ["--recipe", lab.recipe]
    message = refused(code, "train", lab.prepared, "--out", tmp_path / "run", *recipe, *options)
    assert all(part in message for part in said), message
    assert not (tmp_path / "run").exists()


def test_a_recipe_file_with_a_wrong_field_names_file_and_field(lab, tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text("[model]\nd_modle = 16\n", encoding="utf-8")
    message = refused(2, "train", lab.prepared, "--out", tmp_path / "run", "--recipe", recipe)
    assert "field d_modle" in message
    assert "mine.toml" in message
    assert "d_model" in message.partition("cure:")[2]
    recipe.write_text("[model\n", encoding="utf-8")
    assert "not valid TOML" in refused(
        2, "train", lab.prepared, "--out", tmp_path / "run", "--recipe", recipe
    )


def test_a_corpus_that_is_none_or_damaged_is_refused(lab, tmp_path):
    command = ("--out", tmp_path / "run", "--recipe", lab.recipe, *QUICK)
    assert "missing" in refused(3, "train", tmp_path / "missing", *command)
    refused(3, "train", tmp_path, *command)
    damaged = shutil.copytree(lab.prepared, tmp_path / "damaged")
    shard = damaged / "train.target.ids.npy"
    shard.write_bytes(shard.read_bytes()[:-2])
    assert "train.target.ids.npy" in refused(3, "train", damaged, *command)
    assert not (tmp_path / "run").exists()


def test_a_directory_in_the_way_is_refused(lab, tmp_path):
    command = ("train", lab.prepared, "--recipe", lab.recipe, *QUICK, "--out")
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    assert "is a file" in refused(2, *command, tmp_path / "file")
    assert "not empty" in refused(2, *command, tmp_path)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"
    assert "--resume" in refused(2, *command, lab.run)


def test_a_place_where_nothing_can_be_written_is_told_in_words(lab):
    message = refused(1, "train", lab.prepared, "--recipe", lab.recipe, *QUICK, "--out", "/proc/nowhere/run")
    assert "/proc" in message


def test_a_run_goes_on_with_a_new_limit_and_nothing_else(lab, tmp_path):
    run = tmp_path / "run"
    done("train", lab.prepared, "--out", run, "--recipe", lab.recipe, *QUICK)
    go_on = ("train", lab.prepared, "--out", run, "--resume")
    assert "training.seed" in refused(2, *go_on, "--seed", 9)
    assert "batch.source_tokens" in refused(2, *go_on, "--set", "batch.source_tokens=50")
    before = (run / "recipe.toml").read_bytes()
    assert "has made 4 updates already" in refused(2, *go_on, "--max-steps", 3)
    assert (run / "recipe.toml").read_bytes() == before
    result = done(*go_on, "--max-steps", 6)
    assert "going on from step-00000004" in result.err
    whole = tmp_path / "whole"
    done("train", lab.prepared, "--out", whole, "--recipe", lab.recipe, *QUICK, "--max-steps", 6)
    names = [f"checkpoints/step-00000006/{file}" for file in ("model.safetensors", "optimizer.safetensors")]
    for name in names:
        assert (run / name).read_bytes() == (whole / name).read_bytes()


def test_a_loss_that_is_not_finite_is_code_5(lab, tmp_path):
    command = ("train", lab.prepared, "--out", tmp_path / "run", "--recipe", lab.recipe, "--max-steps", 50)
    message = refused(5, *command, "--set", "optimizer.factor=1e38", "--set", "optimizer.warmup_steps=1")
    assert "optimizer.factor" in message.partition("cure:")[2]
    assert not (tmp_path / "run" / "model").exists()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_saves_and_a_second_command_finishes(lab, tmp_path, name):
    run = tmp_path / "run"
    command = ("train", lab.prepared, "--out", run, "--recipe", lab.recipe)
    with start(*command, "--max-steps", 1_000_000, "--set", "training.checkpoint_steps=1000000") as process:
        wait_for_updates(run, process)
        result = finish_after(process, getattr(signal, name))
    assert result.code == 75, result.err
    assert "Traceback" not in result.err
    assert f"go on with: dragoman train {lab.prepared} --out {run} --resume" in result.err
    assert not (run / "model").exists()
    [saved] = [path for path in (run / "checkpoints").iterdir() if path.is_dir()]
    step = open_checkpoint(saved).place.step
    assert step >= 3
    result = done("train", lab.prepared, "--out", run, "--resume", "--max-steps", step + 2)
    assert f"going on from {saved.name}" in result.err
    assert [e["step"] for e in events(run) if e["event"] == "ended"] == [step, step + 2]
    assert len(done("translate", run, lab.dev_source).lines) == 20


def wait_for_updates(run, process):
    """Until three updates are in the log."""
    log, end = run / "events.jsonl", time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if log.exists() and log.read_text(encoding="utf-8").count('"stepped"') >= 3:
            return
        time.sleep(0.05)
    process.kill()
    raise AssertionError(process.stderr.read().decode())
