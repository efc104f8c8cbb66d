"""Normalized queries and keys against the formula of their paper, and what they are for: scores have a bound."""

from __future__ import annotations

import math

import torch
from departing import CONFIG, build
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_ids

from dragoman.model.attention import attention_weights
from dragoman.variants.departures import QueryKeyNorm as Asked
from dragoman.variants.parts import build as build_untrained
from dragoman.variants.query_key_norm import QueryKeyNorm


def part(d_k: int, g: float) -> QueryKeyNorm:
    made = QueryKeyNorm(d_k, 20).double()
    with torch.no_grad():
        made.g.fill_(g)
    return made


@settings(max_examples=25)
@given(d_k=st.integers(1, 7), g=st.floats(-3.0, 30.0), seed=st.integers(0, 2**20))
def test_weights_are_a_softmax_of_cosines(d_k, g, seed):
    generator = torch.Generator().manual_seed(seed)
    Q, K = (torch.randn(2, 3, n, d_k, generator=generator, dtype=torch.float64) for n in (4, 5))
    norm = part(d_k, g)
    got = attention_weights(norm.queries(Q), norm.keys(K))
    cosines = torch.cosine_similarity(Q[:, :, :, None], K[:, :, None], dim=-1)
    torch.testing.assert_close(got, (g * cosines).softmax(dim=-1), rtol=1e-10, atol=1e-12)


@settings(max_examples=10)
@given(size=st.sampled_from([1e-6, 1e-2, 10.0, 1e6]))
def test_how_large_queries_and_keys_are_does_not_matter(size):
    Q, K = (torch.randn(1, 2, 3, 4, dtype=torch.float64) for _ in range(2))
    norm = part(4, 5.0)
    want = norm.queries(Q) @ norm.keys(K).transpose(-2, -1)
    got = norm.queries(size * Q) @ norm.keys(size * K).transpose(-2, -1)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)
    assert got.abs().max() <= 5.0 * math.sqrt(4) + 1e-9


def test_nothing_is_divided_by_zero():
    norm, zeros = part(4, 5.0), torch.zeros(1, 1, 2, 4, dtype=torch.float64, requires_grad=True)
    (norm.queries(zeros).sum() + norm.keys(zeros).sum()).backward()
    assert torch.isfinite(zeros.grad).all()


def test_a_factor_for_each_attention_which_begins_by_the_length_of_sentences():
    model = build_untrained(CONFIG, (Asked(length=70),), seed=1)
    factors = {name: value for name, value in model.named_parameters() if name.endswith("norm.g")}
    assert len(factors) == 3 * CONFIG.N
    assert all(abs(g.item() - math.log2(70 * 70 - 70)) < 1e-5 for g in factors.values())


def test_in_the_whole_model_a_larger_matrix_of_keys_changes_nothing():
    model = build((Asked(),))
    ids = random_ids(13, [5, 3], seed=1)
    want = model(ids, ids)
    with torch.no_grad():
        for layer in [*model.encoder, *model.decoder]:
            attention = layer.self_attention
            attention.W_QKV[attention.h * attention.d_k : 2 * attention.h * attention.d_k] *= 7.0
    torch.testing.assert_close(model(ids, ids), want, rtol=1e-10, atol=1e-11)
