"""I16: what is loaded is what was saved, to the bit, and saving changes nothing of what comes next."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_runs import make_task, sha256_of, tiny_facts, tiny_recipe

from dragoman.model.transformer import Transformer
from dragoman.training.checkpoint import Place, open_checkpoint, save_checkpoint
from dragoman.training.optimizer import FlatAdam
from dragoman.training.stopping import StopRequest
from dragoman.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("quick_runs")


def adam(corpus, dtype: torch.dtype) -> FlatAdam:
    model = Transformer(tiny_facts(corpus).config)
    return FlatAdam(model, dtype, beta_1=0.9, beta_2=0.98, epsilon=1e-9)


def fill_with_any_finite_numbers(optimizer: FlatAdam, seed: int) -> None:
    """Random bits: subnormal numbers, minus zero and the largest numbers among them."""
    draw = np.random.default_rng(seed)
    for tensor in (optimizer.weights() | optimizer.moments()).values():
        values = draw.integers(0, 2**32, tensor.numel(), dtype=np.uint32).view(np.float32)
        values[~np.isfinite(values)] = -0.0
        tensor.copy_(torch.from_numpy(values).view(tensor.shape))


places = st.builds(
    Place,
    step=st.integers(0, 10**9),
    epoch=st.integers(0, 10**6),
    batch=st.integers(0, 10**6),
    plan_digest=st.text("0123456789abcdef", min_size=64, max_size=64),
    best_loss=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    best_step=st.none() | st.integers(0, 10**9),
    validations_without_best=st.integers(0, 10**6),
    seconds=st.floats(0, 1e12),
    threads=st.integers(0, 1024),
)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=places, seed=st.integers(0, 2**20), precision=st.sampled_from([torch.float32, torch.bfloat16]))
def test_loaded_is_saved(corpus, tmp_path_factory, place, seed, precision):
    optimizer = adam(corpus, precision)
    fill_with_any_finite_numbers(optimizer, seed)
    before = sha256_of(optimizer.weights() | optimizer.moments())
    folder = tmp_path_factory.mktemp("saved")
    name = save_checkpoint(folder / "one", tiny_facts(corpus), optimizer, place, keep=1)
    assert sha256_of(optimizer.weights() | optimizer.moments()) == before
    opened = open_checkpoint(folder / "one" / name)
    assert opened.place == place
    other = adam(corpus, precision)
    opened.load_into(other)
    assert sha256_of(other.weights() | other.moments()) == before
    save_checkpoint(folder / "two", opened.bundle.facts, other, opened.place, keep=1)
    for path in (folder / "one" / name).iterdir():
        assert path.read_bytes() == (folder / "two" / name / path.name).read_bytes(), path.name


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_saving_and_validating_change_no_later_update(corpus, tmp_path, precision):
    """With dropout on: random numbers too are as if nothing had been saved."""
    digests = []
    for every in ("none", "1", "3"):
        recipe = tiny_recipe(
            f"training.checkpoint_steps={every}", "training.max_steps=8", f"training.precision={precision}"
        )
        trainer = Trainer(make_task(corpus, tmp_path / every, recipe), recipe, lambda _event: None)
        trainer.run(StopRequest())
        digests.append(sha256_of(trainer.optimizer.weights() | trainer.optimizer.moments()))
    assert len(set(digests)) == 1
