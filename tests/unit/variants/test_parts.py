"""Departures become parts, in whatever order they are listed, and a model of them starts from its seed alone."""

from __future__ import annotations

import pytest
import torch
from departing import CONFIG, EACH
from random_models import random_ids

from dragoman.errors import ConfigError
from dragoman.model.parts import PAPER
from dragoman.model.transformer import Transformer
from dragoman.variants.departures import PreNorm, ProjectionBiases
from dragoman.variants.parts import build, parts_of


def weights(model: Transformer) -> dict[str, torch.Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def test_without_departures_the_parts_are_the_papers():
    assert parts_of(()) is PAPER
    plain, built = Transformer(CONFIG, seed=4), build(CONFIG, seed=4)
    assert all(torch.equal(weights(plain)[name], value) for name, value in weights(built).items())


@pytest.mark.parametrize("name", EACH)
def test_the_seed_decides_every_initial_weight(name):
    first, again, other = (build(CONFIG, EACH[name], seed=seed) for seed in (5, 5, 6))
    torch.manual_seed(2)
    torch.rand(7)
    assert first.state_dict().keys() == again.state_dict().keys()
    for key, value in weights(first).items():
        assert torch.equal(value, weights(again)[key]), key
        assert torch.isfinite(value).all(), key
        constant = (value == value.flatten()[0]).all()
        assert constant or not torch.equal(value, weights(other)[key]), key


@pytest.mark.parametrize("name", EACH)
def test_building_leaves_the_global_generator_alone(name):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    build(CONFIG, EACH[name])
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", [name for name in EACH if len(EACH[name]) > 1])
def test_the_order_they_are_listed_in_does_not_matter(name):
    one, other = (build(CONFIG, made, seed=5).eval() for made in (EACH[name], EACH[name][::-1]))
    ids = random_ids(CONFIG.vocab_size, [4, 2], seed=1)
    assert torch.equal(one(ids, ids), other(ids, ids))


@pytest.mark.parametrize("name", EACH)
def test_in_every_number_format(name):
    ids = random_ids(CONFIG.vocab_size, [4, 2], seed=1)
    wanted = build(CONFIG, EACH[name]).eval()(ids, ids)
    for dtype, tolerance in ((torch.float64, 1e-4), (torch.bfloat16, 0.3)):
        got = build(CONFIG, EACH[name]).to(dtype).eval()(ids, ids)
        assert got.dtype == dtype
        torch.testing.assert_close(got.float(), wanted, rtol=tolerance, atol=tolerance)


def test_what_does_not_go_together_is_not_built():
    with pytest.raises(ConfigError, match="named twice"):
        build(CONFIG, (PreNorm(), PreNorm()))


def test_initial_values_are_the_papers_where_the_matrices_are():
    """Biases alone change no matrix: drawn in the same order, by the same bounds, they have the same values."""
    plain, other = Transformer(CONFIG, seed=4), build(CONFIG, (ProjectionBiases(),), seed=4)
    for name, value in weights(plain).items():
        assert torch.equal(value, weights(other)[name]), name
