"""Shared keys and values against heads of their own that are copies, and the cache, measured."""

from __future__ import annotations

import pytest
import torch
from departing import CONFIG, build
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_ids
from torch import Tensor

from dragoman.model.attention import attend_written_out
from dragoman.model.config import ModelConfig, ModelShape
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.mask import padding_mask
from dragoman.variants.attention import OpenAttention, Pieces
from dragoman.variants.departures import GroupedQuery, MultiQuery
from dragoman.variants.grouped_query import as_heads, as_more_queries, for_more_queries

H = CONFIG.h


@torch.no_grad()
def with_copies(model, plain) -> None:
    """The weights of a model with groups in one of the paper's parts: each head has its group's keys and values."""
    theirs = dict(model.named_parameters())
    for name, parameter in plain.named_parameters():
        source = theirs[name]
        if source.shape == parameter.shape:
            parameter.copy_(source)
            continue
        attention = model.get_submodule(name.removesuffix(".W_QKV"))
        W_Q, W_K, W_V = source.split_with_sizes(attention.widths())
        times = H // attention.groups
        repeated = [
            W.view(attention.groups, 1, d, -1).expand(-1, times, -1, -1).reshape(H * d, -1)
            for W, d in ((W_K, CONFIG.d_k), (W_V, CONFIG.d_v))
        ]
        parameter.copy_(torch.cat([W_Q, *repeated]))


@pytest.mark.parametrize("departure", [GroupedQuery(groups=2), GroupedQuery(groups=1), MultiQuery()], ids=str)
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_it_is_the_papers_model_whose_heads_have_copies(departure, training):
    model, plain = build((departure,)), build(())
    with_copies(model, plain)
    sources, targets = random_ids(13, [5, 3], seed=1), random_ids(13, [4, 2], seed=2)
    with torch.set_grad_enabled(training):
        got, want = model.train(training)(sources, targets), plain.train(training)(sources, targets)
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def test_as_many_groups_as_heads_is_the_papers_attention():
    model, plain = build((GroupedQuery(groups=H),)), build(())
    ids = random_ids(13, [5, 3], seed=1)
    torch.testing.assert_close(model(ids, ids), plain(ids, ids), rtol=1e-12, atol=1e-12)


@settings(max_examples=30)
@given(
    groups=st.integers(1, 3),
    times=st.integers(1, 3),
    lengths=st.tuples(*2 * [st.integers(1, 4)]),
    seed=st.integers(0, 2**20),
)
def test_a_group_is_more_queries(groups, times, lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    (L, S), h = lengths, groups * times
    Q, K, V = (
        torch.randn(2, heads, length, 5, generator=generator, dtype=torch.float64)
        for heads, length in ((h, L), (groups, S), (groups, S))
    )
    mask = torch.rand(2, 1, L, S, generator=generator) < 0.7
    got = as_heads(attend_written_out(as_more_queries(Q, groups), K, V, for_more_queries(mask, times)), h)
    assert torch.equal(as_heads(as_more_queries(Q, groups), h), Q)
    for head in range(h):
        shared = slice(head // times, head // times + 1)
        want = attend_written_out(Q[:, head : head + 1], K[:, shared], V[:, shared], mask)
        torch.testing.assert_close(got[:, head : head + 1], want, rtol=1e-12, atol=1e-12)


def cache_bytes(model) -> tuple[int, int]:
    """Of the prefix and of the source, after ten steps."""
    decoder = IncrementalDecoder(model, random_ids(13, [7, 7], seed=1))
    for _ in range(10):
        decoder(torch.full((2, 1), 3))

    def size(*tensors: Tensor) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    caches = decoder._caches
    return (
        sum(size(cache.K, cache.V) for cache in caches),
        sum(size(cache.source_K, cache.source_V) for cache in caches),
    )


def test_the_cache_is_smaller_by_the_heads_of_a_group():
    prefix, source = cache_bytes(build(()))
    assert prefix > 0
    assert source == CONFIG.N * 2 * 7 * H * (CONFIG.d_k + CONFIG.d_v) * 8
    assert cache_bytes(build((GroupedQuery(groups=2),))) == (prefix // 2, source // 2)
    assert cache_bytes(build((MultiQuery(),))) == (prefix // 4, source // 4)


def test_which_attentions_share():
    grouped, multi = build((GroupedQuery(groups=2),)), build((MultiQuery(),))
    assert type(grouped.encoder[0].self_attention).__name__ == "MultiHeadAttention"
    assert multi.encoder[0].self_attention.groups == 1
    for model, groups in ((grouped, 2), (multi, 1)):
        layer = model.decoder[0]
        assert (layer.self_attention.groups, layer.cross_attention.groups) == (groups, groups)


def test_parameters_and_their_initial_values():
    shape = ModelShape(d_model=64, h=8)
    attention = OpenAttention(shape, Pieces(groups=2))
    with torch.no_grad():
        attention.initialize(torch.Generator().manual_seed(1))
    W_Q, W_K, W_V = attention.W_QKV.detach().split_with_sizes(attention.widths())
    assert [tuple(W.shape) for W in (W_Q, W_K, W_V)] == [(64, 64), (16, 64), (16, 64)]
    bound = (6 / (64 + 16 + 16 + 64)) ** 0.5
    assert all(0.97 * bound < W.abs().max() <= bound for W in (W_Q, W_K, W_V))
    config = ModelConfig(vocab_size=10, N=1, d_model=64, d_ff=8, h=8)
    saved = {
        groups: sum(p.numel() for p in build((GroupedQuery(groups=groups),), config).parameters())
        for groups in (8, 2)
    }
    assert saved[8] - saved[2] == 2 * 2 * (64 - 16) * 64


def test_a_source_without_tokens_gives_no_nan():
    model = build((MultiQuery(),))
    source_ids = torch.tensor([[0, 0], [3, 4]])
    memory = model.encode(source_ids)
    logits = model.decode(torch.tensor([[2], [2]]), memory, padding_mask(source_ids, 0))
    assert torch.isfinite(logits).all()
