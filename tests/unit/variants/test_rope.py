"""Rotary positions against complex numbers, and what they are for: only distances matter."""

from __future__ import annotations

import cmath

import pytest
import torch
from departing import CONFIG, build
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_ids

from dragoman.model.incremental import IncrementalDecoder
from dragoman.variants.departures import Rope
from dragoman.variants.rope import Rotation, rotations

BASE = 50.0


def rotation(d_k: int) -> Rotation:
    made = Rotation(d_k, BASE)
    made.table = rotations(64, d_k, BASE)
    return made


@settings(max_examples=25)
@given(half=st.integers(1, 4), first=st.integers(0, 40), length=st.integers(1, 5), seed=st.integers(0, 2**20))
def test_each_pair_is_a_complex_number_turned(half, first, length, seed):
    """Eq. 34 of its paper, as multiplication by e^(i m theta)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1, 2, length, 2 * half, generator=generator, dtype=torch.float64)
    got = rotation(2 * half)(x, first)
    for head in range(2):
        for m in range(length):
            for i in range(half):
                theta = BASE ** (-2 * i / (2 * half))
                z = complex(*x[0, head, m, 2 * i : 2 * i + 2].tolist()) * cmath.exp(1j * (first + m) * theta)
                assert got[0, head, m, 2 * i].item() == pytest.approx(z.real, abs=1e-12)
                assert got[0, head, m, 2 * i + 1].item() == pytest.approx(z.imag, abs=1e-12)


@settings(max_examples=25)
@given(shift=st.integers(0, 30), seed=st.integers(0, 2**20))
def test_products_depend_on_distances_alone_and_lengths_stay(shift, seed):
    generator = torch.Generator().manual_seed(seed)
    Q, K = (torch.randn(2, 3, 7, 6, generator=generator, dtype=torch.float64) for _ in range(2))
    turn = rotation(6)
    want = turn(Q) @ turn(K).transpose(-2, -1)
    got = turn(Q, shift) @ turn(K, shift).transpose(-2, -1)
    torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(turn(Q, shift).norm(dim=-1), Q.norm(dim=-1), rtol=1e-12, atol=1e-12)
    if shift:
        assert (turn(Q, shift) @ turn(K).transpose(-2, -1) - want).abs().max() > 1e-3


def test_attention_of_the_whole_model_written_out():
    """The encoder's first layer, with every rotation as a matrix."""
    model = build((Rope(base=BASE),))
    attention, L = model.encoder[0].self_attention, 5
    x = torch.randn(1, L, CONFIG.d_model, dtype=torch.float64)
    W_Q, W_K, W_V = attention.W_QKV.split_with_sizes(attention.widths())
    d_k, d_v = CONFIG.d_k, CONFIG.d_v

    def turning(m: int) -> torch.Tensor:
        blocks = []
        for i in range(d_k // 2):
            angle = torch.tensor(m * BASE ** (-2 * i / d_k), dtype=torch.float64)
            blocks.append(torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2))
        return torch.block_diag(*blocks)

    heads = []
    for h in range(CONFIG.h):
        q, k = (
            torch.stack([turning(m) @ (W[h * d_k : (h + 1) * d_k] @ x[0, m]) for m in range(L)])
            for W in (W_Q, W_K)
        )
        weights = (q @ k.T / d_k**0.5).softmax(dim=-1)
        heads.append(weights @ (x[0] @ W_V[h * d_v : (h + 1) * d_v].T))
    want = torch.cat(heads, dim=-1) @ attention.W_O.T
    torch.testing.assert_close(attention(x)[0], want, rtol=1e-11, atol=1e-12)


def test_where_it_is_and_where_not():
    model = build((Rope(),))
    x = torch.randn(1, 3, CONFIG.d_model, dtype=torch.float64)
    assert torch.equal(model.position(x), x)
    for layer in model.decoder:
        assert isinstance(layer.self_attention.rotation, Rotation)
        assert not hasattr(layer.cross_attention, "rotation")
    assert dict(model.named_buffers()).keys() == {
        *(f"encoder.{n}.self_attention.rotation.table" for n in range(CONFIG.N)),
        *(f"decoder.{n}.self_attention.rotation.table" for n in range(CONFIG.N)),
    }
    assert not any("table" in name for name in model.state_dict())


def test_the_table_grows_while_translating_and_training_goes_on():
    model = build((Rope(base=BASE),))
    wanted = build((Rope(base=BASE),))
    for module in model.modules():
        if isinstance(module, Rotation):
            module.table = module.table[:2]
    source_ids, target_ids = random_ids(13, [7], seed=1), random_ids(13, [9], seed=2)
    decoder = IncrementalDecoder(model, source_ids)
    got = torch.cat([decoder(token[:, None]) for token in target_ids.T], dim=1)
    torch.testing.assert_close(got, wanted(source_ids, target_ids).detach().float())
    model(source_ids, target_ids).sum().backward()
