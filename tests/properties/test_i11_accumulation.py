"""I11: the gradient of a batch is the same however it is cut into pieces.

Paper: 5.1
"""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_runs import tiny_facts
from torch import Tensor

from dragoman.data.batches import Batch, make_batch
from dragoman.model.transformer import Transformer
from dragoman.training import step as step_module
from dragoman.training.optimizer import FlatAdam
from dragoman.training.step import gradient


def gathered(
    corpus, batch: Batch, *, tokens_at_once: int, P_drop: float = 0.0
) -> tuple[Tensor, float, float]:
    model = Transformer(tiny_facts(corpus, P_drop=P_drop).config, seed=2).double()
    optimizer = FlatAdam(model, torch.float64, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    loss, nll = gradient(model, optimizer, batch, eps_ls=0.1, tokens_at_once=tokens_at_once)
    return optimizer.gathered(), loss, nll


def assert_same(one: tuple[Tensor, float, float], other: tuple[Tensor, float, float]) -> None:
    assert float((one[0] - other[0]).abs().max()) <= 1e-6 * float(one[0].abs().max())
    assert other[1] == pytest.approx(one[1], rel=1e-9)
    assert other[2] == pytest.approx(one[2], rel=1e-9)


@settings(max_examples=12)
@given(pairs=st.integers(2, 14), tokens_at_once=st.integers(1, 200), seed=st.integers(0, 999))
def test_pieces_by_size(corpus, pairs, tokens_at_once, seed):
    indices = torch.randperm(len(corpus.train), generator=torch.Generator().manual_seed(seed))[:pairs].numpy()
    batch = make_batch(corpus.train, indices)
    assert_same(
        gathered(corpus, batch, tokens_at_once=10_000), gathered(corpus, batch, tokens_at_once=tokens_at_once)
    )


@settings(max_examples=12)
@given(pairs=st.integers(2, 14), seed=st.integers(0, 999))
def test_any_cut_in_any_order(corpus, pairs, seed):
    """Pieces of unequal sizes, long ones next to short ones."""
    draw = random.Random(seed)
    indices = torch.tensor(draw.sample(range(len(corpus.train)), pairs)).numpy()
    batch = make_batch(corpus.train, indices)
    bounds = sorted(draw.sample(range(1, pairs), draw.randint(1, pairs - 1)))
    cut = [step_module._rows(batch, slice(a, b)) for a, b in zip([0, *bounds], [*bounds, pairs], strict=True)]
    draw.shuffle(cut)
    assert sum(piece.target_tokens for piece in cut) == batch.target_tokens
    whole = gathered(corpus, batch, tokens_at_once=10_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_module, "pieces", lambda _batch, _tokens: iter(cut))
        assert_same(whole, gathered(corpus, batch, tokens_at_once=1))


def test_the_measure_would_see_a_mean_of_means(corpus):
    """The same test on a wrong accumulation fails: the tolerance is not too wide."""
    batch = make_batch(corpus.train, torch.arange(8).numpy())
    whole = gathered(corpus, batch, tokens_at_once=10_000)[0] / batch.target_tokens
    halves = [step_module._rows(batch, slice(a, a + 4)) for a in (0, 4)]
    assert halves[0].target_tokens != halves[1].target_tokens
    means = [gathered(corpus, half, tokens_at_once=10_000)[0] / half.target_tokens for half in halves]
    assert float((sum(means) / 2 - whole).abs().max()) > 1e-3 * float(whole.abs().max())
