"""Decoding a token at a time gives the logits of decoding the whole prefix (invariant I21).

Paper: 3
"""

from __future__ import annotations

import pytest
import torch
from cached_steps import BOS, assert_steps_equal
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import CONFIGS, build, random_ids

from dragoman.model.cache import GROWTH
from dragoman.model.incremental import IncrementalDecoder


@pytest.mark.parametrize(
    ("name", "dtype"), [*((name, torch.float64) for name in CONFIGS), ("odd_heads", torch.float32)], ids=str
)
def test_fifty_steps_with_reordered_beams(name, dtype):
    model = build(CONFIGS[name], dtype=dtype)
    source_ids = random_ids(model.config.source_rows, [4, 1], seed=5)
    assert 3 * GROWTH < 50
    assert_steps_equal(model, source_ids, steps=50, seed=1, widths=range(2, 4), may_drop=False)


@settings(max_examples=15)
@given(
    name=st.sampled_from(sorted(CONFIGS)),
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4),
    seed=st.integers(0, 2**20),
    may_drop=st.booleans(),
)
def test_sentences_drop_out_change_places_and_beams_grow_and_shrink(name, lengths, seed, may_drop):
    model = build(CONFIGS[name], seed=seed)
    source_ids = random_ids(model.config.source_rows, lengths, seed=seed)
    assert_steps_equal(model, source_ids, steps=6, seed=seed, widths=range(1, 5), may_drop=may_drop)


def test_more_steps_than_the_table_of_positions_has_rows():
    model = build(CONFIGS["paper"])
    model.position.table = model.position.table[:3]
    source_ids, target_ids = random_ids(13, [2], seed=1), random_ids(13, [9], seed=2)
    decoder = IncrementalDecoder(model, source_ids)
    got = torch.cat([decoder(token[:, None]) for token in target_ids.T], dim=1)
    torch.testing.assert_close(got, build(CONFIGS["paper"])(source_ids, target_ids).detach().float())


def test_what_is_computed_while_translating_does_not_hinder_training_after():
    """The table grown under inference mode is an ordinary tensor, which other processes may write to."""
    model = build(CONFIGS["paper"])
    model.position.table = model.position.table[:2]
    IncrementalDecoder(model, random_ids(13, [7], seed=1))
    assert model.position.table.shape[0] >= 7
    model.position.table.copy_(model.position.table.clone())
    model(random_ids(13, [7], seed=1), random_ids(13, [5], seed=2)).sum().backward()


def test_two_decoders_of_one_model_do_not_touch():
    model = build(CONFIGS["paper"])
    source_ids = random_ids(13, [5, 3], seed=1)
    alone = IncrementalDecoder(model, source_ids[:1])(torch.tensor([[BOS]]))
    one, other = IncrementalDecoder(model, source_ids[:1]), IncrementalDecoder(model, source_ids[1:])
    other(torch.tensor([[BOS]]))
    other(torch.tensor([[4]]))
    assert torch.equal(one(torch.tensor([[BOS]])), alone)
