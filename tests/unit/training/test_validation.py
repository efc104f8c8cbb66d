"""Dev loss and perplexity.

Paper: 6.2, Table 3 (perplexity)
"""

from __future__ import annotations

import math

import pytest
import torch
from tiny_runs import tiny_facts

from dragoman.data.batches import dev_batches
from dragoman.model.transformer import Transformer
from dragoman.training.loss import label_smoothed_loss
from dragoman.training.validation import DevLoss, dev_loss


@pytest.fixture
def model(corpus):
    return Transformer(tiny_facts(corpus, P_drop=0.5).config, seed=4)


def test_it_is_the_mean_over_all_dev_tokens(corpus, model):
    measured = dev_loss(model, dev_batches(corpus.dev, 60), 0.1)
    smoothed = nll = 0.0
    tokens = 0
    for batch in dev_batches(corpus.dev, 1):  # one pair a batch
        logits = model.eval()(batch.source_ids, batch.target_input_ids)[0]
        loss = label_smoothed_loss(logits.double(), batch.target_output_ids[0], 0.1, pad_id=0)
        smoothed, nll, tokens = smoothed + loss.smoothed.item(), nll + loss.nll.item(), tokens + loss.tokens
    assert measured.tokens == tokens == int(corpus.dev.target_lengths.sum())
    assert measured.loss == pytest.approx(smoothed / tokens, rel=1e-5)
    assert measured.nll == pytest.approx(nll / tokens, rel=1e-5)
    assert measured.perplexity == pytest.approx(math.exp(nll / tokens), rel=1e-4)


def test_it_does_not_depend_on_how_the_dev_set_is_cut(corpus, model):
    one, other = (dev_loss(model, dev_batches(corpus.dev, size), 0.1) for size in (30, 1000))
    assert one.tokens == other.tokens
    assert one.loss == pytest.approx(other.loss, rel=1e-5)


def test_it_uses_no_dropout_no_gradient_and_no_random_numbers(corpus, model):
    """Validation may not change what training does next (I15)."""
    model.train()
    state = torch.random.get_rng_state()
    before = [p.detach().clone() for p in model.parameters()]
    first = dev_loss(model, dev_batches(corpus.dev, 60), 0.1)
    assert not model.training
    assert dev_loss(model, dev_batches(corpus.dev, 60), 0.1) == first
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))


def test_perplexity_of_a_diverged_model_is_a_number_or_nan():
    assert math.isfinite(DevLoss(1e6, 1e6, 1).perplexity)
    assert math.isnan(DevLoss(math.nan, math.nan, 1).perplexity)
    assert DevLoss(2.0, 0.0, 1).perplexity == 1.0
