"""What the decoder begins with, and a vector on its sources: as the plain model with other rows or positions."""

from __future__ import annotations

import pytest
import torch
from departing import CONFIG, build
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_ids

from dragoman.text.subwords import Subwords
from dragoman.variants.departures import EndStart, OutputBias, PaddingStart, TargetSpace, ZeroStart
from dragoman.variants.parts import build as build_untrained

BOS, EOS, PAD = Subwords.BOS_ID, Subwords.EOS_ID, Subwords.PAD_ID
V = CONFIG.vocab_size
ROWS = {"end_start": EOS, "padding_start": PAD, "zero_start": None}
KINDS = {"end_start": EndStart, "padding_start": PaddingStart, "zero_start": ZeroStart}
UNTIED = CONFIG.model_copy(update={"tied_output": False})
SEPARATE = CONFIG.model_copy(update={"shared_embeddings": False})


def ids_of(lengths: list[int], seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sources without BOS, and targets that begin with it and have it nowhere else."""
    sources, targets = random_ids(V, lengths, seed=seed), random_ids(V, lengths, seed=seed + 1)
    for ids in (sources, targets):
        ids[ids == BOS] = BOS + 1
    targets[:, 0] = BOS
    return sources, targets


@settings(max_examples=3)
@given(lengths=st.lists(st.integers(2, 6), min_size=1, max_size=3), seed=st.integers(0, 2**20))
@pytest.mark.parametrize("config", [CONFIG, UNTIED, SEPARATE], ids=["tied", "untied", "separate"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_it_is_the_plain_model_with_another_row_for_its_first_token(name, biased, config, lengths, seed):
    more = (OutputBias(),) if biased else ()
    model, plain = build((KINDS[name](), *more), config, seed=seed), build(more, config, seed=seed)
    plain.load_state_dict(model.state_dict())
    sources, targets = ids_of(lengths, seed)
    weight = plain.target_embedding.weight
    with torch.no_grad():
        weight[BOS] = 0.0 if ROWS[name] is None else weight[ROWS[name]].clone()
    torch.testing.assert_close(
        model.hidden(sources, targets), plain.hidden(sources, targets), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("name", KINDS)
def test_the_row_of_bos_learns_nothing_by_being_looked_up(name):
    model = build((KINDS[name](),), UNTIED).train()
    sources, targets = ids_of([4, 3], seed=3)
    model.hidden(sources, targets).sin().sum().backward()
    gradient = model.target_embedding.weight.grad
    assert bool((gradient[BOS] == 0.0).all())
    if ROWS[name] is not None:
        assert bool((gradient[ROWS[name]] != 0.0).any())


def test_the_vector_is_one_more_term_of_the_sources_positions():
    model, plain = build((TargetSpace(),)), build(())
    state = model.state_dict()
    plain.load_state_dict({name: value for name, value in state.items() if name != "encoder_start.vector"})
    sources, targets = random_ids(V, [5, 3], seed=1), random_ids(V, [4, 4], seed=2)
    table = plain.position.table.clone()
    plain.position.table += state["encoder_start.vector"]
    memory = plain.encode(sources)
    torch.testing.assert_close(model.encode(sources), memory, rtol=1e-12, atol=1e-12)
    plain.position.table = table
    torch.testing.assert_close(
        model.decode(targets, memory), plain.decode(targets, memory), rtol=1e-12, atol=1e-12
    )


def test_the_vector_begins_as_a_row_of_an_embedding():
    vectors = [
        build_untrained(CONFIG, (TargetSpace(),), seed=seed).encoder_start.vector for seed in range(200)
    ]
    spread = float(torch.stack(vectors).detach().std() * CONFIG.d_model**0.5)
    assert spread == pytest.approx(1.0, abs=0.06)
