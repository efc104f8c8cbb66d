"""I30: the average of k copies of m is m; the order of the list is irrelevant.

Paper: 6.1
"""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_runs import tiny_facts, write_random_bundle

from dragoman.bundle import open_bundle
from dragoman.training.averaging import average_checkpoints, average_weights


@pytest.fixture(scope="module")
def folder(tmp_path_factory, corpus):
    place = tmp_path_factory.mktemp("models")
    for seed in range(5):
        write_random_bundle(place / f"step-{seed}", tiny_facts(corpus), seed=seed, step=seed)
    return place


@settings(max_examples=5)
@given(k=st.integers(1, 5), seed=st.integers(0, 4))
def test_the_average_of_copies_is_the_model(folder, k, seed):
    bundle = open_bundle(folder / f"step-{seed}")
    average = average_weights([bundle] * k)
    for name, weight in bundle.weights().items():
        torch.testing.assert_close(average[name], weight, rtol=1e-7, atol=0, msg=name)


@settings(max_examples=5)
@given(chosen=st.lists(st.integers(0, 4), min_size=2, max_size=5, unique=True), seed=st.integers(0, 99))
def test_the_order_is_irrelevant(folder, tmp_path_factory, chosen, seed):
    paths = [folder / f"step-{k}" for k in chosen]
    shuffled = random.Random(seed).sample(paths, len(paths))
    out = tmp_path_factory.mktemp("means")
    one, other = average_checkpoints(paths, out / "one"), average_checkpoints(shuffled, out / "other")
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    mean = torch.stack(
        [open_bundle(path).weights()["target_embedding.weight"].double() for path in paths]
    ).mean(0)
    found = open_bundle(one).weights()["target_embedding.weight"].double()
    torch.testing.assert_close(found, mean, rtol=1e-7, atol=1e-9)
