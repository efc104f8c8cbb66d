"""Padding changes nothing: neither what stands there (I07) nor how much of it there is (I08).

Paper: 3.2.3
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import CONFIGS, build, random_ids
from torch import Tensor

from dragoman.model.mask import padding_mask

LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=3)
NAMES = st.sampled_from(sorted(CONFIGS))


@settings(max_examples=30)
@given(name=NAMES, lengths=LENGTHS, more=st.integers(0, 64), seed=st.integers(0, 2**20))
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=["fp32", "fp64"]
)
def test_the_amount_of_padding_is_irrelevant(dtype, tolerance, name, lengths, more, seed):
    model = build(CONFIGS[name], seed=seed, dtype=dtype)
    source_ids = random_ids(model.config.source_rows, lengths, seed=seed)
    target_ids = random_ids(model.config.vocab_size, lengths[::-1], seed=seed + 1)
    with torch.no_grad():
        want = model(source_ids, target_ids)
        got = model(F.pad(source_ids, (0, more)), F.pad(target_ids, (0, more)))
    real = target_ids != 0
    # Logits of models of random weights go to 30 and more: the bound is of their size.
    torch.testing.assert_close(got[:, : want.shape[1]][real], want[real], rtol=tolerance, atol=tolerance)


@settings(max_examples=30)
@given(name=NAMES, lengths=LENGTHS, seed=st.integers(0, 2**20))
def test_a_sentence_among_others_gives_what_it_gives_alone(name, lengths, seed):
    model = build(CONFIGS[name], seed=seed)
    source_ids = random_ids(model.config.source_rows, lengths, seed=seed)
    target_ids = random_ids(model.config.vocab_size, lengths[::-1], seed=seed + 1)
    got = model(source_ids, target_ids)
    for b, (S, T) in enumerate(zip(lengths, lengths[::-1], strict=True)):
        alone = model(source_ids[b : b + 1, :S], target_ids[b : b + 1, :T])
        torch.testing.assert_close(got[b, :T], alone[0], rtol=1e-12, atol=1e-12)


@settings(max_examples=30)
@given(
    name=st.sampled_from(["untied", "own_source"]),
    poison=st.sampled_from([0.0, -1.0, 1e4, -1e8, 1e30]),
    seed=st.integers(0, 2**20),
)
def test_the_embedding_of_padding_is_irrelevant(name, poison, seed):
    model = build(CONFIGS[name], seed=seed)
    source_ids = random_ids(model.config.source_rows, [5, 2, 1], seed=seed)
    target_ids = random_ids(model.config.vocab_size, [3, 3, 3], seed=seed + 1)
    want = model(source_ids, target_ids)
    with torch.no_grad():
        model.source_embedding.weight[0] = poison
    torch.testing.assert_close(model(source_ids, target_ids), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("poison", [1e4, -1e8, 1e30])
def test_anything_finite_at_masked_positions_of_the_encoders_output_is_irrelevant(poison):
    model = build(CONFIGS["odd_heads"], dtype=torch.float32)
    source_ids, target_ids = random_ids(11, [5, 2], seed=1), random_ids(11, [4, 4], seed=2)
    mask = padding_mask(source_ids, 0)
    memory = model.encode(source_ids)
    poisoned = torch.where(mask[:, 0, 0, :, None], memory, torch.tensor(poison))
    assert not torch.equal(memory, poisoned)
    want, got = (model.decode(target_ids, y, mask) for y in (memory, poisoned))
    torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def loss(model, source_ids: Tensor, target_ids: Tensor) -> Tensor:
    """Over real target positions only."""
    return model(source_ids, target_ids)[target_ids != 0].sin().sum()


def test_padding_gets_no_gradient():
    model = build(CONFIGS["untied"])
    source_ids, target_ids = random_ids(14, [5, 2], seed=1), random_ids(10, [2, 4], seed=2)
    loss(model, source_ids, target_ids).backward()
    assert (model.source_embedding.weight.grad[0] == 0).all()
    assert (model.target_embedding.weight.grad[0] == 0).all()
    assert (model.source_embedding.weight.grad[source_ids[0, 0]] != 0).any()


@settings(max_examples=20)
@given(tokens=st.lists(st.integers(0, 12), min_size=3, max_size=3))
def test_whatever_follows_the_end_of_a_target_is_irrelevant(tokens):
    model = build(CONFIGS["paper"])
    source_ids = random_ids(13, [5, 2], seed=1)
    target_ids = random_ids(13, [3, 6], seed=2)
    other = target_ids.clone()
    other[0, 3:] = torch.tensor(tokens)
    got, want = model(source_ids, other), model(source_ids, target_ids)
    assert torch.equal(got[0, :3], want[0, :3])
    assert torch.equal(got[1], want[1])
