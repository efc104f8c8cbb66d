"""Sinusoids in blocks against tensor2tensor's formula, transformers' table, and the paper's in another order."""

from __future__ import annotations

import math

import pytest
import torch
from departing import CONFIG, build
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.model.position import INITIAL_LENGTH, sinusoids
from dragoman.variants.block_sinusoids import BlockSinusoidalPosition, block_sinusoids
from dragoman.variants.departures import BlockSinusoids


@settings(max_examples=20)
@given(half=st.integers(2, 6), pos=st.integers(0, 600))
def test_tensor2tensors_formula(half, pos):
    """Timescales from 1 to 10000 in geometric steps: min_timescale * exp(i * log(1e4 / 1) / (channels / 2 - 1))."""
    row = block_sinusoids(pos + 1, 2 * half, "tensor2tensor")[pos]
    for i in range(half):
        timescale = math.exp(i * math.log(1e4) / (half - 1))
        assert row[i].item() == pytest.approx(math.sin(pos / timescale), abs=1e-9)
        assert row[half + i].item() == pytest.approx(math.cos(pos / timescale), abs=1e-9)
    longest = math.exp((half - 1) * math.log(1e4) / (half - 1))
    assert longest == pytest.approx(10_000.0)


@settings(max_examples=20)
@given(half=st.integers(1, 6), length=st.integers(1, 30))
def test_with_the_papers_wavelengths_it_is_the_papers_table_in_another_order(half, length):
    ours = block_sinusoids(length, 2 * half, "paper")
    papers = sinusoids(length, 2 * half)
    assert torch.equal(ours[:, :half], papers[:, 0::2])
    assert torch.equal(ours[:, half:], papers[:, 1::2])


def test_transformers_table():
    marian = pytest.importorskip("transformers.models.marian.modeling_marian")
    table = marian.MarianSinusoidalPositionalEmbedding(40, 12).create_weight()
    torch.testing.assert_close(table, block_sinusoids(40, 12, "paper").float(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("wavelengths", ["paper", "tensor2tensor"])
def test_it_is_added_and_grows(wavelengths):
    part = BlockSinusoidalPosition(6, wavelengths)
    x = torch.randn(2, INITIAL_LENGTH + 9, 6)
    want = x + block_sinusoids(INITIAL_LENGTH + 9, 6, wavelengths).float()
    torch.testing.assert_close(part(x), want)
    positions = torch.tensor([[3, INITIAL_LENGTH + 5]])
    torch.testing.assert_close(part(x[:1, :2], positions), x[:1, :2] + part.table[positions])
    model = build((BlockSinusoids(wavelengths=wavelengths),))
    assert model.position.wavelengths == wavelengths
    assert model.position.d_model == CONFIG.d_model
