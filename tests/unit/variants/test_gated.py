"""Gated feed-forward networks against their formulas, gates written out of elementary functions."""

from __future__ import annotations

import math

import pytest
import torch
from departing import build
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.model.config import ModelConfig, ModelShape
from dragoman.model.count import count_parameters, feed_forward_parameters
from dragoman.variants.departures import GEGLU, GLU, SwiGLU
from dragoman.variants.gated import GATES, GatedFeedForward, gated_width

WRITTEN_OUT = {
    "glu": lambda x: 1.0 / (1.0 + torch.exp(-x)),
    "geglu": lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))),
    "swiglu": lambda x: x / (1.0 + torch.exp(-x)),
}
KINDS = {"glu": GLU, "geglu": GEGLU, "swiglu": SwiGLU}


@settings(max_examples=30)
@given(name=st.sampled_from(sorted(WRITTEN_OUT)), width=st.integers(1, 7), seed=st.integers(0, 2**20))
def test_the_formula_written_out(name, width, seed):
    generator = torch.Generator().manual_seed(seed)
    network = GatedFeedForward(ModelShape(d_model=6, h=2), GATES[name], width).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(generator=generator)
    x = torch.randn(2, 3, 6, generator=generator, dtype=torch.float64)
    opened = WRITTEN_OUT[name](torch.einsum("bli,wi->blw", x, network.W))
    inner = opened * torch.einsum("bli,wi->blw", x, network.V)
    want = torch.einsum("blw,iw->bli", inner, network.W_2)
    torch.testing.assert_close(network(x), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_a_recipes_departure_is_the_gate_of_its_name(name):
    network = build((KINDS[name](d_ff="kept"),)).encoder[0].feed_forward
    x = torch.linspace(-3.0, 3.0, 7, dtype=torch.float64)
    torch.testing.assert_close(network.gate(x), WRITTEN_OUT[name](x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("d_ff", "two_thirds"), [(3072, 2048), (2048, 1365), (2, 1), (3, 2)])
def test_widths(d_ff, two_thirds):
    assert gated_width(d_ff, "kept") == d_ff
    assert gated_width(d_ff, "two_thirds") == two_thirds


def test_two_thirds_cost_no_more_parameters_and_kept_half_as_many_more():
    config = ModelConfig(vocab_size=10, N=1, d_model=8, d_ff=48, h=2)
    plain = count_parameters(config).total
    sizes = {
        rule: sum(p.numel() for p in build((SwiGLU(d_ff=rule),), config).parameters())
        for rule in ("kept", "two_thirds")
    }
    biases = 2 * (config.d_ff + config.d_model)
    assert sizes["two_thirds"] == plain - biases
    matrices = 2 * feed_forward_parameters(config) - biases
    assert sizes["kept"] == plain - biases + matrices // 2


def test_initial_values_are_glorot_uniform_by_each_matrixs_own_sizes():
    config = ModelConfig(vocab_size=10, N=1, d_model=40, d_ff=300, h=2)
    network = GatedFeedForward(config, GATES["glu"], 200)
    with torch.no_grad():
        network.initialize(torch.Generator().manual_seed(1))
    bound = math.sqrt(6.0 / 240)
    for matrix in (network.W, network.V, network.W_2):
        assert 0.99 * bound < matrix.abs().max() <= bound
        assert matrix.mean().abs() < 0.1 * bound
    assert not torch.equal(network.W, network.V)
