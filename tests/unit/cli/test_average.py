"""`dragoman average` from the command line."""

from __future__ import annotations

import shutil

import pytest
from command_line import done, everything_in, refused
from safetensors.numpy import load_file


def weights(directory):
    return load_file(directory / "model.safetensors")


def checkpoints(lab):
    return sorted(path for path in (lab.run / "checkpoints").iterdir() if path.is_dir())


def test_the_last_checkpoints_of_a_run(lab, tmp_path):
    result = done("average", lab.run, "--last", 2, "--out", tmp_path / "m")
    named = ", ".join(path.name for path in checkpoints(lab)[-2:])
    assert result.err == f"wrote {tmp_path / 'm'}, the average of 2: {named}\n"
    first, second = map(weights, checkpoints(lab))
    found = weights(tmp_path / "m")
    assert found.keys() == first.keys()
    for name, values in found.items():
        mean = (first[name].astype("f8") + second[name].astype("f8")) / 2
        assert values == pytest.approx(mean, abs=1e-7)
    assert len(done("translate", tmp_path / "m", lab.dev_source).lines) == 20


def test_fewer_checkpoints_than_asked_for_is_told(lab, tmp_path):
    told = done("average", lab.run, "--last", 99, "--out", tmp_path / "m").err.splitlines()
    assert told[0] == "note: the run has 2 to average, not 99"


def test_checkpoints_by_name(lab, tmp_path):
    both = checkpoints(lab)
    done("average", *both, "--out", tmp_path / "named")
    done("average", lab.run, "--out", tmp_path / "run")
    done("average", both[1], "--out", tmp_path / "one")
    for name, values in weights(tmp_path / "named").items():
        assert (values == weights(tmp_path / "run")[name]).all()
        assert (weights(tmp_path / "one")[name] == weights(both[1])[name]).all()


def test_checkpoints_of_different_runs_are_averaged_with_a_warning(lab, tmp_path):
    other = tmp_path / "other"
    done("train", lab.prepared, "--out", other, "--recipe", lab.recipe, "--max-steps", 2, "--seed", 9)
    [theirs] = (path for path in (other / "checkpoints").iterdir() if path.is_dir())
    result = done("average", checkpoints(lab)[0], theirs, "--out", tmp_path / "m")
    assert "warning: these are of different runs (seed " in result.err
    assert "warning" not in done("average", *checkpoints(lab), "--out", tmp_path / "n").err


def test_what_cannot_be_averaged_is_refused_and_leaves_nothing(lab, tmp_path):
    both = checkpoints(lab)
    out = ("--out", tmp_path / "m")
    assert "nowhere" in refused(4, "average", tmp_path / "nowhere", "--last", 2, *out)
    assert "no checkpoints" in refused(4, "average", tmp_path, *out)
    assert "twice" in refused(2, "average", both[0], both[0], *out)
    assert "by name" in refused(2, "average", *both, "--last", 2, *out)
    refused(2, "average", lab.run, "--last", 0, *out)
    assert everything_in(tmp_path) == []
    damaged = shutil.copytree(both[0], tmp_path / both[0].name)
    (damaged / "model.safetensors").write_bytes((damaged / "model.safetensors").read_bytes()[:-1])
    before = everything_in(tmp_path)
    assert "model.safetensors" in refused(4, "average", damaged, both[1], *out)
    assert everything_in(tmp_path) == before


def test_something_in_the_way_stays(lab, tmp_path):
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    refused(2, "average", lab.run, "--out", tmp_path)
    assert everything_in(tmp_path) == ["mine.txt"]


def test_a_model_is_replaced_only_if_asked(lab, tmp_path):
    done("average", lab.run, "--last", 1, "--out", tmp_path / "m")
    before = (tmp_path / "m" / "model.safetensors").read_bytes()
    assert "--overwrite" in refused(2, "average", lab.run, "--out", tmp_path / "m")
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == before
    done("average", lab.run, "--out", tmp_path / "m", "--overwrite")
    assert (tmp_path / "m" / "model.safetensors").read_bytes() != before
