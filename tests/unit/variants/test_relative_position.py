"""Relative positions against the sums of their paper, written out number by number."""

from __future__ import annotations

import math

import torch
from departing import CONFIG, build
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_ids

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.config import ModelShape
from dragoman.variants.departures import RelativePositions as Asked
from dragoman.variants.relative_position import RelativePositions, distances

SHAPE = ModelShape(d_model=8, h=2, d_k=3, d_v=2)


def part(farthest: int, seed: int) -> RelativePositions:
    made = RelativePositions(SHAPE, farthest).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        made.a_K.normal_(generator=generator)
        made.a_V.normal_(generator=generator)
    return made


@settings(max_examples=20)
@given(
    farthest=st.integers(1, 4),
    first=st.integers(0, 5),
    queries=st.integers(1, 3),
    keys=st.integers(1, 6),
    seed=st.integers(0, 2**20),
)
def test_the_sums_written_out(farthest, first, queries, keys, seed):
    """Eqs. 3 and 4 of its paper, with the clipping of section 3.2."""
    made = part(farthest, seed)
    generator = torch.Generator().manual_seed(seed)
    Q, K, V = (
        torch.randn(1, 2, n, d, generator=generator, dtype=torch.float64)
        for n, d in ((queries, 3), (keys, 3), (keys, 2))
    )
    mask = torch.rand(1, 1, queries, keys, generator=generator) < 0.7
    got = made(Q, K, V, mask, first=first, P_drop=0.0)
    for h in range(2):
        for i in range(queries):
            legal = [j for j in range(keys) if mask[0, 0, i, j]]
            rows = {j: max(-farthest, min(farthest, j - (first + i))) + farthest for j in legal}
            e = {j: (Q[0, h, i] @ (K[0, h, j] + made.a_K[rows[j]])).item() / math.sqrt(3) for j in legal}
            total = sum(math.exp(value) for value in e.values())
            z = torch.zeros(2, dtype=torch.float64)
            for j in legal:
                z += math.exp(e[j]) / total * (V[0, h, j] + made.a_V[rows[j]])
            torch.testing.assert_close(got[0, h, i], z, rtol=1e-9, atol=1e-10)


def test_distances_are_clipped():
    wanted = [[2, 3, 4, 4, 4], [1, 2, 3, 4, 4], [0, 1, 2, 3, 4]]
    assert distances(0, 3, 5, 2, torch.device("cpu")).tolist() == wanted
    assert distances(2, 1, 5, 2, torch.device("cpu")).tolist() == wanted[2:]


def test_dropout_is_on_the_weights_of_both_sums():
    made = part(2, 1)
    Q, K = (torch.zeros(1, 1, 1, 3, dtype=torch.float64) for _ in range(2))
    V = torch.full((1, 1, 1, 2), 5.0, dtype=torch.float64)
    torch.manual_seed(1)
    drawn = {tuple(made(Q, K, V, None, first=0, P_drop=0.5).flatten().tolist()) for _ in range(40)}
    assert drawn == {(0.0, 0.0), tuple((2.0 * (5.0 + made.a_V[2])).tolist())}


def test_where_it_is_and_where_not():
    model = build((Asked(farthest=3),))
    x = torch.randn(1, 3, CONFIG.d_model, dtype=torch.float64)
    assert torch.equal(model.position(x), x)
    assert type(model.decoder[0].cross_attention) is MultiHeadAttention
    tables = [tuple(p.shape) for name, p in model.named_parameters() if ".a_" in name]
    assert tables == 2 * CONFIG.N * [(7, CONFIG.d_k), (7, CONFIG.d_v)]


def test_without_tables_the_encoder_knows_no_order():
    """A guard on the tests above: the tables alone tell positions."""
    model = build((Asked(farthest=3),))
    ids, order = random_ids(13, [5], seed=1), torch.tensor([3, 1, 4, 0, 2])
    assert (model.encode(ids)[:, order] - model.encode(ids[:, order])).abs().max() > 1e-3
    with torch.no_grad():
        for layer in model.encoder:
            layer.self_attention.relative.a_K.zero_()
            layer.self_attention.relative.a_V.zero_()
    torch.testing.assert_close(
        model.encode(ids)[:, order], model.encode(ids[:, order]), rtol=1e-10, atol=1e-11
    )


def test_initial_values_are_glorot_uniform():
    made = RelativePositions(ModelShape(d_model=64, h=1), 50)
    with torch.no_grad():
        made.initialize(torch.Generator().manual_seed(1))
    bound = math.sqrt(6.0 / (101 + 64))
    for table in (made.a_K.detach(), made.a_V.detach()):
        assert 0.98 * bound < table.abs().max() <= bound
