"""Learned positions against a plain table, and what is beyond it."""

from __future__ import annotations

import pytest
import torch
from departing import build
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_ids
from torch import nn

from dragoman.errors import ConfigError
from dragoman.model.incremental import IncrementalDecoder
from dragoman.recipe import Recipe
from dragoman.variants.departures import LearnedPositions
from dragoman.variants.learned_position import LearnedPosition

LENGTH, D = 6, 4


def part() -> LearnedPosition:
    made = LearnedPosition(D, LENGTH).double()
    with torch.no_grad():
        made.weight.normal_(generator=torch.Generator().manual_seed(1))
    return made


@settings(max_examples=20)
@given(rows=st.integers(1, 3), length=st.integers(1, LENGTH), seed=st.integers(0, 2**20))
def test_torchs_embedding_of_the_positions_is_added(rows, length, seed):
    made, twin = part(), nn.Embedding(LENGTH, D, dtype=torch.float64)
    twin.weight = made.weight
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, length, D, generator=generator, dtype=torch.float64)
    assert torch.equal(made(x), x + twin(torch.arange(length)))
    positions = torch.randint(0, LENGTH, (rows, length), generator=generator)
    assert torch.equal(made(x, positions), x + twin(positions))


def test_beyond_the_table_positions_have_its_last_row():
    made, x = part(), torch.zeros(1, LENGTH + 3, D, dtype=torch.float64)
    assert torch.equal(made(x)[0, :LENGTH], made.weight)
    assert (made(x)[0, LENGTH:] == made.weight[-1]).all()
    assert torch.equal(made(x[:, :1], torch.tensor([[99]]))[0, 0], made.weight[-1])


def test_a_translation_that_runs_beyond_the_table_goes_on():
    model = build((LearnedPositions(length=3),))
    source_ids, target_ids = random_ids(13, [7], seed=1), random_ids(13, [9], seed=2)
    decoder = IncrementalDecoder(model, source_ids)
    got = torch.cat([decoder(token[:, None]) for token in target_ids.T], dim=1)
    torch.testing.assert_close(got, model(source_ids, target_ids).detach().float())


def test_gradients_reach_the_rows_in_use_alone():
    model = build((LearnedPositions(length=9),)).train()
    ids = random_ids(13, [5, 3], seed=1)
    model(ids, ids).sin().sum().backward()
    in_use = (model.position.weight.grad != 0).any(dim=1)
    assert in_use.tolist() == [True] * 5 + [False] * 4


def test_initial_values():
    made = LearnedPosition(100, 400)
    with torch.no_grad():
        made.initialize(torch.Generator().manual_seed(1))
    assert abs(float(made.weight.detach().std()) - 0.1) < 0.002


def test_one_table_serves_both_stacks():
    names = [name for name, _ in build((LearnedPositions(),)).named_parameters() if "position" in name]
    assert names == ["position.weight"]


def test_sentences_to_train_on_have_positions_of_their_own():
    change = 'departures.architecture={name = "learned_positions", length = 100}'
    with pytest.raises(ConfigError, match="sentences of up to 256 tokens have more than 100 positions"):
        Recipe().with_changes([change])
    assert Recipe().with_changes([change, "batch.max_length=100"]).batch.max_length == 100
