"""Multi-head attention: its matrices, its heads, and where its input comes from.

Paper: 3.2, 3.2.2, 3.2.3, Figure 2
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from random_models import CONFIGS, build

from dragoman.model.attention import (
    MultiHeadAttention,
    attend_fused,
    attend_written_out,
    attention_weights,
    join_heads,
    split_heads,
)
from dragoman.model.mask import causal_mask

CONFIG = CONFIGS["odd_heads"]  # d_model 12, h 3, d_k 5, d_v 2


@pytest.fixture
def attention() -> MultiHeadAttention:
    return build(CONFIG).encoder[0].self_attention


def test_heads_are_slices_of_the_width():
    x = torch.arange(24.0).view(1, 2, 12)
    heads = split_heads(x, 3)
    assert heads.shape == (1, 3, 2, 4)
    assert heads[0, 1, 0].tolist() == [4.0, 5.0, 6.0, 7.0]
    assert torch.equal(join_heads(heads), x)


def test_the_matrices_are_views_of_what_is_stored(attention):
    W_Q, W_K, W_V, W_O = attention.matrices()
    assert [tuple(matrix.shape) for matrix in (W_Q, W_K, W_V, W_O)] == [(15, 12), (15, 12), (6, 12), (12, 6)]
    with torch.no_grad():
        W_K.zero_()
    assert (attention.W_QKV[15:30] == 0).all()
    assert (attention.W_QKV[:15] != 0).all()
    assert (attention.W_QKV[30:] != 0).all()


def test_one_product_and_two_give_the_same_heads(attention):
    x = torch.randn(2, 4, 12, dtype=torch.float64)
    Q, K, V = attention.self_projections(x)
    torch.testing.assert_close(attention.queries(x), Q)
    for got, want in zip(attention.keys_values(x), (K, V), strict=True):
        torch.testing.assert_close(got, want)
    W_Q, _, W_V, _ = attention.matrices()
    torch.testing.assert_close(Q[:, 2], F.linear(x, W_Q[10:15]))
    torch.testing.assert_close(V[:, 2], F.linear(x, W_V[4:6]))


def test_keys_and_values_come_from_y_and_queries_from_x(attention):
    x, y = torch.randn(1, 3, 12, dtype=torch.float64), torch.randn(1, 5, 12, dtype=torch.float64)
    torch.testing.assert_close(attention(x, x), attention(x))
    changed = y.clone()
    changed[0, 4] += 1
    assert not torch.allclose(attention(x, y), attention(x, changed))
    shorter = torch.tensor([True, True, True, True, False]).view(1, 1, 1, 5)
    torch.testing.assert_close(attention(x, y, shorter), attention(x, y[:, :4]))
    # One more query changes no other query's output.
    torch.testing.assert_close(attention(x, y)[:, :2], attention(x[:, :2], y))


def test_the_form_of_equation_1_handed_in_is_the_one_used():
    calls = []

    def noted(Q, K, V, mask):
        calls.append(mask)
        return torch.zeros_like(V)

    attention = MultiHeadAttention(CONFIG, noted)
    torch.nn.init.ones_(attention.W_QKV)
    torch.nn.init.ones_(attention.W_O)
    mask = causal_mask(4)
    assert (attention(torch.ones(1, 4, 12), mask=mask) == 0).all()
    assert len(calls) == 1
    assert calls[0] is mask


def test_weights_sum_to_one_over_the_keys():
    Q, K = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 6, 5)
    weights = attention_weights(Q, K)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 3, 4))
    masked = attention_weights(Q, K[:, :, :4], causal_mask(4))
    torch.testing.assert_close(masked.sum(dim=-1), torch.ones(2, 3, 4))
    assert (masked.triu(1) == 0).all()


@pytest.mark.parametrize("form", [attend_written_out, attend_fused])
def test_no_keys_at_all_give_zeros(form):
    Q, K = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 0, 5)
    assert torch.equal(form(Q, K, K, torch.ones(2, 1, 1, 0, dtype=torch.bool)), torch.zeros(2, 3, 4, 5))


def test_it_has_four_matrices_and_no_bias(attention):
    assert {name: tuple(weight.shape) for name, weight in attention.named_parameters()} == {
        "W_QKV": (36, 12),
        "W_O": (12, 6),
    }
    assert (attention(torch.zeros(1, 3, 12, dtype=torch.float64)) == 0).all()
