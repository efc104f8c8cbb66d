"""RMSNorm against its formula, and where it stands."""

from __future__ import annotations

import torch
from departing import CONFIG, build
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dragoman.model.residual import LAYER_NORM_EPSILON
from dragoman.variants.departures import PreNorm, RMSNorm
from dragoman.variants.rms_norm import rms_norm


@settings(max_examples=30)
@given(d=st.integers(1, 9), seed=st.integers(0, 2**20), size=st.sampled_from([1e-4, 1.0, 1e3]))
def test_the_formula_written_out(d, seed, size):
    generator = torch.Generator().manual_seed(seed)
    x = size * torch.randn(2, 3, d, generator=generator, dtype=torch.float64)
    norm = rms_norm(d).double()
    with torch.no_grad():
        norm.weight.normal_(generator=generator)
    mean_square = x.square().sum(-1, keepdim=True) / d
    want = x * norm.weight / (mean_square + LAYER_NORM_EPSILON) ** 0.5
    torch.testing.assert_close(norm(x), want, rtol=1e-12, atol=1e-12)


def test_the_scale_of_x_does_not_matter_and_its_mean_does():
    x, norm = torch.randn(4, 8, dtype=torch.float64), rms_norm(8).double()
    torch.testing.assert_close(norm(1e3 * x), norm(x), rtol=1e-4, atol=1e-4)
    assert (norm(x + 5.0) - norm(x)).abs().max() > 0.1


def test_it_stands_wherever_a_norm_stands_and_begins_with_a_gain_of_one():
    for departures, count in (((RMSNorm(),), 5 * CONFIG.N), ((RMSNorm(), PreNorm()), 5 * CONFIG.N + 2)):
        modules = list(build(departures).modules())
        assert sum(isinstance(module, nn.RMSNorm) for module in modules) == count
        assert not any(isinstance(module, nn.LayerNorm) for module in modules)
    assert (rms_norm(5).weight == 1).all()
    assert [name for name, _ in rms_norm(5).named_parameters()] == ["weight"]
