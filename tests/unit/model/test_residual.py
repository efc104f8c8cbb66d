"""LayerNorm(x + Dropout(Sublayer(x))).

Paper: 3.1, 5.4
"""

from __future__ import annotations

import torch
from torch import nn

from dragoman.model import residual
from dragoman.model.config import ModelShape
from dragoman.model.residual import LAYER_NORM_EPSILON, PostNorm, layer_norm


def shape(P_drop: float = 0.0) -> ModelShape:
    return ModelShape(d_model=8, h=2, P_drop=P_drop)


def test_the_sum_is_normed():
    post = PostNorm(shape())
    x = torch.randn(2, 3, 8) * 5 + 2
    y = post(x, lambda z: z.square())
    torch.testing.assert_close(y.mean(dim=-1), torch.zeros(2, 3), rtol=0, atol=1e-5)
    torch.testing.assert_close(y.var(dim=-1, unbiased=False), torch.ones(2, 3), rtol=0, atol=1e-4)
    torch.testing.assert_close(y, nn.functional.layer_norm(x + x.square(), (8,), eps=1e-6))


def test_the_sublayer_sees_the_input_as_it_is():
    seen = []
    x = torch.randn(1, 3, 8) * 5 + 2
    PostNorm(shape())(x, lambda z: (seen.append(z), z)[1])
    assert len(seen) == 1
    assert seen[0] is x


def test_dropout_falls_on_the_sublayers_output_alone(monkeypatch):
    dropped = []

    def everything(x, y, P_drop, training):
        dropped.append((y, P_drop, training))
        return x

    monkeypatch.setattr(residual, "add_dropped", everything)
    post = PostNorm(shape(0.25)).double().train()  # float64: written out, not by the kernels
    x = torch.randn(1, 3, 8, dtype=torch.float64)
    torch.testing.assert_close(post(x, lambda z: z + 1), nn.functional.layer_norm(x, (8,), eps=1e-6))
    [(what, P_drop, training)] = dropped
    assert torch.equal(what, x + 1)
    assert (P_drop, training) == (0.25, True)


def test_dropout_is_off_in_eval_mode():
    post = PostNorm(shape(0.9)).eval()
    x = torch.randn(1, 3, 8)
    assert torch.equal(post(x, torch.sin), post(x, torch.sin))
    post.train()
    assert not torch.equal(post(x, torch.sin), post(x, torch.sin))


def test_epsilon_keeps_a_constant_row_finite():
    norm = layer_norm(8)
    assert norm.eps == LAYER_NORM_EPSILON == 1e-6
    assert (norm(torch.full((1, 8), 3.0)) == 0).all()


def test_another_norm_can_be_handed_in():
    post = PostNorm(shape(), norm=lambda d_model: nn.Identity())
    x = torch.randn(1, 3, 8)
    assert torch.equal(post(x, lambda z: z), x + x)
