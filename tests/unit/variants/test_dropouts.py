"""Dropout inside attention and the feed-forward network: where, how much, and only while training."""

from __future__ import annotations

import pytest
import torch
from departing import CONFIG, build
from random_models import random_ids

from dragoman.model.attention import attend_written_out, attention_weights
from dragoman.model.config import ModelShape
from dragoman.model.dropout import keep_mask
from dragoman.variants.departures import AttentionDropout, FeedForwardDropout, GroupedQuery, SwiGLU
from dragoman.variants.dropouts import DroppedFeedForward, attend_dropped
from dragoman.variants.gated import GATES, GatedFeedForward

P = 0.5


def drawn_again(shape: torch.Size) -> torch.Tensor:
    """What dropout multiplies by, of the same random numbers."""
    torch.manual_seed(3)
    return keep_mask(shape, P, torch.device("cpu")).double() / (1.0 - P)


def test_attention_drops_weights_after_the_softmax():
    Q, K, V = (torch.randn(2, 3, 5, 4, dtype=torch.float64) for _ in range(3))
    mask = torch.ones(2, 1, 5, 5, dtype=torch.bool).tril()
    weights = attention_weights(Q, K, mask)
    torch.manual_seed(3)
    got = attend_dropped(Q, K, V, mask, P)
    torch.testing.assert_close(got, (weights * drawn_again(weights.shape)) @ V, rtol=1e-12, atol=1e-12)


def test_its_mean_is_the_attention_without():
    torch.manual_seed(5)
    Q, K, V = (torch.randn(1, 1, 3, 4, dtype=torch.float64) for _ in range(3))
    repeated = [x.expand(4_000, 1, -1, -1) for x in (Q, K, V)]
    mean = attend_dropped(*repeated, None, P).mean(dim=0, keepdim=True)
    assert (mean - attend_written_out(Q, K, V)).abs().max() < 0.1


@pytest.mark.parametrize("gated", [False, True])
def test_the_feed_forward_network_drops_its_inner_values(gated):
    shape = ModelShape(d_model=8, d_ff=12, h=2)
    network = (
        GatedFeedForward(shape, GATES["swiglu"], 12, P) if gated else DroppedFeedForward(shape, P)
    ).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    inner = network.inner(x)
    bias = 0.0 if gated else network.b_2
    torch.manual_seed(3)
    got = network.train()(x)
    want = (inner * drawn_again(inner.shape)) @ network.W_2.T + bias
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(network.eval()(x), inner @ network.W_2.T + bias, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "departures",
    [
        (AttentionDropout(),),
        (FeedForwardDropout(),),
        (AttentionDropout(P_drop=0.4), FeedForwardDropout(P_drop=0.3)),
    ],
    ids=str,
)
def test_the_same_model_while_translating_and_another_while_training(departures):
    model, plain = build(departures), build(())
    assert {name for name, _ in model.named_parameters()} == {name for name, _ in plain.named_parameters()}
    model.load_state_dict(plain.state_dict())
    ids = random_ids(13, [5, 3], seed=1)
    torch.testing.assert_close(model(ids, ids), plain(ids, ids), rtol=1e-12, atol=1e-12)
    model.train()
    torch.manual_seed(1)
    first = model(ids, ids)
    torch.manual_seed(1)
    assert torch.equal(model(ids, ids), first)
    assert not torch.equal(model(ids, ids), first)
    assert (first - plain(ids, ids)).abs().max() > 1e-3


def test_they_go_with_other_pieces():
    departures = (AttentionDropout(P_drop=0.2), FeedForwardDropout(P_drop=0.3), GroupedQuery(groups=2))
    model = build((*departures, SwiGLU(d_ff="kept")))
    for layer in [*model.encoder, *model.decoder]:
        assert (layer.self_attention.P_weights, layer.feed_forward.P_drop) == (0.2, 0.3)
    assert model.decoder[0].cross_attention.P_weights == 0.2
    assert model.decoder[0].self_attention.groups == 2
    assert model.encoder[0].self_attention.groups == CONFIG.h
