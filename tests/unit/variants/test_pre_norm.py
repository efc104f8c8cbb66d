"""Pre-norm against torch's own, and what it is for: the input of a layer reaches its output untouched."""

from __future__ import annotations

import pytest
import torch
from departing import build
from hypothesis import given, settings
from hypothesis import strategies as st
from parity.test_torch_nn import CONFIG, batch, torch_twin, twin_hidden
from torch import nn

from dragoman.model.config import ModelShape
from dragoman.model.dropout import keep_mask
from dragoman.model.residual import LAYER_NORM_EPSILON
from dragoman.variants.departures import PreNorm as AskedPreNorm
from dragoman.variants.pre_norm import PreNorm

D = 8


def part(P_drop: float = 0.0) -> PreNorm:
    return PreNorm(ModelShape(d_model=D, h=2, P_drop=P_drop)).double()


@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning", "ignore:enable_nested_tensor:UserWarning")
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_the_stacks_equal_torchs_norm_first(training):
    model = build((AskedPreNorm(),), CONFIG).train(training)
    twin = torch_twin(model)
    with torch.no_grad():
        for stack, end in ((twin.encoder, model.encoder_end), (twin.decoder, model.decoder_end)):
            stack.norm = nn.LayerNorm(CONFIG.d_model, eps=LAYER_NORM_EPSILON, dtype=model.dtype)
            stack.norm.load_state_dict(end.state_dict())
            for layer in stack.layers:
                layer.norm_first = True
    twin.train(training)
    with torch.set_grad_enabled(training):
        want = twin_hidden(twin, model, *batch())
        got = model.hidden(*batch())
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**20))
def test_the_formula_written_out(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 3, D, generator=generator, dtype=torch.float64)
    residual = part()
    with torch.no_grad():
        residual.norm.weight.normal_(generator=generator)
        residual.norm.bias.normal_(generator=generator)
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).square().mean(-1, keepdim=True)
    normalized = (x - mean) / (variance + LAYER_NORM_EPSILON).sqrt()
    want = x + torch.sin(normalized * residual.norm.weight + residual.norm.bias)
    torch.testing.assert_close(residual(x, torch.sin), want, rtol=1e-12, atol=1e-12)


def test_a_sub_layer_that_gives_nothing_leaves_x_as_it_is():
    x = torch.randn(2, 3, D, dtype=torch.float64)
    assert torch.equal(part()(x, torch.zeros_like), x)


def test_dropout_is_on_the_sub_layers_output_while_training():
    x, residual = torch.zeros(4, 5, D, dtype=torch.float64), part(P_drop=0.5)
    torch.manual_seed(3)
    kept = keep_mask(x.shape, 0.5, x.device)
    torch.manual_seed(3)
    torch.testing.assert_close(residual.train()(x, torch.ones_like), 2.0 * kept.double())
    torch.testing.assert_close(residual.eval()(x, torch.ones_like), torch.ones_like(x))
