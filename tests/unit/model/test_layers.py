"""Encoder and decoder layers: what each sub-layer sees, and a step beside a pass.

Paper: 3.1, 3.2.3, Figure 1
"""

from __future__ import annotations

import torch
from random_models import CONFIGS, build

from dragoman.model.layers import DecoderLayer, EncoderLayer
from dragoman.model.mask import causal_mask, padding_mask

CONFIG = CONFIGS["odd_heads"]
D = CONFIG.d_model


def encoder_layer() -> EncoderLayer:
    return build(CONFIG).encoder[0]


def decoder_layer() -> DecoderLayer:
    return build(CONFIG).decoder[0]


def states(B: int, L: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(B, L, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_an_encoder_layer_is_attention_then_network_each_normed_after():
    layer, x = encoder_layer(), states(2, 4)
    mask = padding_mask(torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]), 0)
    y = layer.residual_1.norm(x + layer.self_attention(x, mask=mask))
    z = layer.residual_2.norm(y + layer.feed_forward(y))
    torch.testing.assert_close(layer(x, mask), z)


def test_a_decoder_layer_attends_to_itself_then_to_the_source_then_runs_the_network():
    layer, x, memory = decoder_layer(), states(2, 3), states(2, 5, seed=1)
    mask = causal_mask(3)
    source_mask = padding_mask(torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]), 0)
    y = layer.residual_1.norm(x + layer.self_attention(x, mask=mask))
    z = layer.residual_2.norm(y + layer.cross_attention(y, memory, source_mask))
    w = layer.residual_3.norm(z + layer.feed_forward(z))
    torch.testing.assert_close(layer(x, memory, mask, source_mask), w)


def test_steps_of_a_decoder_layer_are_the_rows_of_a_pass():
    layer, x, memory = decoder_layer(), states(2, 20), states(2, 5, seed=1)
    source_mask = padding_mask(torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]), 0)
    cache = layer.start(memory, source_mask)
    with torch.no_grad():
        steps = [layer.step(x[:, t : t + 1], cache) for t in range(20)]
    want = layer(x, memory, causal_mask(20), source_mask)
    torch.testing.assert_close(torch.cat(steps, dim=1), want, rtol=1e-12, atol=1e-12)


def test_hypotheses_of_a_sentence_share_its_source_and_nothing_else():
    layer, memory = decoder_layer(), states(2, 5, seed=1)
    source_mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    x = states(2, 3, seed=2)  # three hypotheses of each of two sentences, first position
    cache = layer.start(memory, source_mask)
    cache.reorder(torch.tensor([0, 0, 0, 1, 1, 1]), None)
    with torch.no_grad():
        got = layer.step(x, cache)
        for b in range(2):
            for k in range(3):
                alone = layer(x[b, k][None, None], memory[b : b + 1], causal_mask(1), None)
                torch.testing.assert_close(got[b, k], alone[0, 0], rtol=1e-12, atol=1e-12)


def test_no_layer_has_more_than_the_paper_gives_it():
    """Names of parameters, so that no later idea slips in unseen."""
    norms = [f"residual_{i}.norm.{name}" for i in (1, 2) for name in ("weight", "bias")]
    network = [f"feed_forward.{name}" for name in ("W_1", "b_1", "W_2", "b_2")]
    own = ["self_attention.W_QKV", "self_attention.W_O"]
    assert {name for name, _ in encoder_layer().named_parameters()} == {*norms, *network, *own}
    more = ["cross_attention.W_QKV", "cross_attention.W_O", "residual_3.norm.weight", "residual_3.norm.bias"]
    assert {name for name, _ in decoder_layer().named_parameters()} == {*norms, *network, *own, *more}
