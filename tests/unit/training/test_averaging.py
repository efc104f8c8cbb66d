"""Averages of checkpoints: the plain mean, of what belongs together.

Paper: 6.1
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_runs import pairs, random_weights, tiny_facts, write_random_bundle

from dragoman.bundle import BundleFacts, open_bundle, write_bundle
from dragoman.errors import CheckpointError, ConfigError, VocabularyMismatch
from dragoman.text.subwords import Subwords
from dragoman.training.averaging import average_checkpoints, average_weights, last_checkpoints


@pytest.fixture(scope="module")
def facts(corpus) -> BundleFacts:
    return tiny_facts(corpus)


def write_constant(folder: Path, facts: BundleFacts, value: float, *, step: int, dtype=torch.float32) -> Path:
    weights = {name: torch.full_like(w, value, dtype=dtype) for name, w in random_weights(facts).items()}
    write_bundle(folder, facts, weights, step=step)
    return folder


def test_the_mean_by_hand(tmp_path, facts):
    paths = [
        write_constant(tmp_path / f"step-{k}", facts, value, step=k)
        for k, value in enumerate((1.0, 2.0, 6.0), start=1)
    ]
    out = average_checkpoints(paths, tmp_path / "mean")
    weights = open_bundle(out).weights()
    assert weights.keys() == random_weights(facts).keys()
    assert all((weight == 3.0).all() for weight in weights.values())


def test_the_result_says_what_it_is_the_average_of(tmp_path, facts):
    paths = [write_random_bundle(tmp_path / f"step-{k}", facts, seed=k, step=k) for k in (3, 1, 2)]
    manifest = open_bundle(average_checkpoints(paths, tmp_path / "mean")).manifest
    assert manifest.averaged == ("step-1", "step-2", "step-3")
    assert manifest.step == 3
    assert manifest.kind == "model"
    assert "step-1, step-2, step-3" in (tmp_path / "mean" / "README.md").read_text()


def test_the_order_of_the_list_is_irrelevant(tmp_path, facts):
    paths = [write_random_bundle(tmp_path / f"step-{k}", facts, seed=k, step=k) for k in range(1, 6)]
    one = average_checkpoints(paths, tmp_path / "one")
    other = average_checkpoints([paths[k] for k in (3, 0, 4, 2, 1)], tmp_path / "other")
    for name in ("model.safetensors", "manifest.json", "README.md"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_sums_are_in_float64(tmp_path, facts):
    """2^24 + 1 + 1 is 2^24 in float32, added one by one; the mean is 5592406, not 5592405.5."""
    paths = [
        write_constant(tmp_path / f"step-{k}", facts, value, step=k)
        for k, value in enumerate((2.0**24, 1.0, 1.0), start=1)
    ]
    weights = average_weights([open_bundle(path) for path in paths])
    narrow = (torch.tensor(2.0**24) + torch.tensor(1.0) + torch.tensor(1.0)) / 3
    for weight in weights.values():
        assert weight.dtype == torch.float32
        assert (weight == (2**24 + 2) / 3).all()
        assert (weight != narrow).all()


def test_the_number_format_stays(tmp_path, facts):
    paths = [
        write_constant(tmp_path / f"step-{k}", facts, float(k), step=k, dtype=torch.bfloat16) for k in (1, 2)
    ]
    weights = average_weights([open_bundle(path) for path in paths])
    assert all(weight.dtype == torch.bfloat16 and (weight == 1.5).all() for weight in weights.values())


def test_different_vocabularies_are_refused(tmp_path, facts):
    subwords = Subwords.train([unit for pair in pairs(240, seed=9) for unit in pair], vocab_size=340)
    assert subwords.vocab_size == facts.config.vocab_size
    assert subwords.digest != facts.source_subwords.digest
    other = replace(facts, source_subwords=subwords, target_subwords=subwords)
    paths = [write_random_bundle(tmp_path / "a", facts), write_random_bundle(tmp_path / "b", other)]
    with pytest.raises(VocabularyMismatch, match="a and b have different subwords"):
        average_checkpoints(paths, tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_different_sizes_are_refused(tmp_path, corpus, facts):
    wider = tiny_facts(corpus, d_ff=64)
    paths = [write_random_bundle(tmp_path / "a", facts), write_random_bundle(tmp_path / "b", wider)]
    with pytest.raises(CheckpointError, match="a and b have different sizes"):
        average_checkpoints(paths, tmp_path / "mean")


def test_a_damaged_one_is_refused(tmp_path, facts):
    paths = [write_random_bundle(tmp_path / f"step-{k}", facts, seed=k) for k in (1, 2)]
    data = bytearray((paths[1] / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (paths[1] / "model.safetensors").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        average_checkpoints(paths, tmp_path / "mean")


def test_none_and_the_same_twice_are_refused(tmp_path, facts):
    path = write_random_bundle(tmp_path / "a", facts)
    with pytest.raises(ConfigError, match="no checkpoint"):
        average_checkpoints([], tmp_path / "mean")
    (tmp_path / "link").symlink_to(path)
    for twice in ([path, path], [path, tmp_path / "b" / ".." / "a"], [path, tmp_path / "link"]):
        with pytest.raises(ConfigError, match="twice"):
            average_checkpoints(twice, tmp_path / "mean")


def test_nothing_but_a_model_is_replaced(tmp_path, facts):
    """A folder of somebody's is not a place to write a model to."""
    paths = [write_random_bundle(tmp_path / f"step-{k}", facts, seed=k) for k in (1, 2)]
    mine = tmp_path / "thesis"
    mine.mkdir()
    (mine / "README.md").write_text("mine")
    for names in (["README.md"], ["README.md", "chapter.tex"]):
        for name in names:
            (mine / name).write_text("mine")
        with pytest.raises(ConfigError, match="not a model to be replaced"):
            average_checkpoints(paths, mine)
        assert sorted(path.name for path in mine.iterdir()) == names
    with pytest.raises(ConfigError, match="is a file"):
        average_checkpoints(paths, mine / "README.md")
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "empty", paths[0]):
        average_checkpoints(paths, place)
        assert open_bundle(place).manifest.averaged == ("step-1", "step-2")


def test_the_last_checkpoints_of_a_run(tmp_path):
    folder = tmp_path / "run" / "checkpoints"
    for step in (2, 10, 9, 100):
        (folder / f"step-{step:08d}").mkdir(parents=True)
    expected = [folder / f"step-{step:08d}" for step in (9, 10, 100)]
    assert last_checkpoints(tmp_path / "run", 3) == expected
    assert last_checkpoints(folder, 3) == expected
    assert len(last_checkpoints(folder, 9)) == 4
    for place in (tmp_path, tmp_path / "absent"):
        with pytest.raises(CheckpointError, match="no checkpoints"):
            last_checkpoints(place, 3)
