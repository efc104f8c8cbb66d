"""The Annotated Transformer's norm and another epsilon, against sums written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from departing import CONFIG, build
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from dragoman.variants.departures import FinalNorm, NormEpsilon, PreNorm, RMSNorm
from dragoman.variants.unbiased_norm import UnbiasedNorm


@given(
    rows=st.integers(1, 4),
    width=st.integers(2, 9),
    scale=st.sampled_from([1e-4, 1.0, 1e3]),
    seed=st.integers(0, 999),
)
def test_by_numpy(rows, width, scale, seed):
    draw = np.random.default_rng(seed)
    x, gain, bias = draw.normal(size=(rows, width)) * scale, draw.normal(size=width), draw.normal(size=width)
    norm = UnbiasedNorm(width, 1e-3).double()
    with torch.no_grad():
        norm.weight.copy_(torch.from_numpy(gain))
        norm.bias.copy_(torch.from_numpy(bias))
    want = (x - x.mean(1, keepdims=True)) / (x.std(1, ddof=1, keepdims=True) + 1e-3) * gain + bias
    torch.testing.assert_close(norm(torch.from_numpy(x)), torch.from_numpy(want), rtol=1e-9, atol=1e-11)


def test_begins_with_gain_1_and_bias_0():
    norm = UnbiasedNorm(6)
    assert norm.epsilon == 1e-6
    assert bool((norm.weight == 1.0).all())
    assert bool((norm.bias == 0.0).all())
    assert norm.bfloat16()(torch.randn(3, 6).bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("others", "kind"),
    [((), nn.LayerNorm), ((PreNorm(),), nn.LayerNorm), ((RMSNorm(), FinalNorm()), nn.RMSNorm)],
)
def test_every_norm_has_the_epsilon(others, kind):
    model = build((*others, NormEpsilon(epsilon=0.25)), CONFIG)
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm)]
    assert len(norms) == 5 * CONFIG.N + 2 * bool(others)
    assert all(type(norm) is kind and norm.eps == 0.25 for norm in norms)
