"""What a masked language model learns from: which tokens are hidden, what stands there; nothing else is learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from departing import ONE_STACK, build_one_stack
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import random_ids

from dragoman.data.batches import Batch
from dragoman.text.subwords import Subwords
from dragoman.training.loss import output_loss
from dragoman.training.step import pieces
from dragoman.variants.encoder_only import MASK_ID, hide

V, PAD, EOS = 60, Subwords.PAD_ID, Subwords.EOS_ID


def batch_of(texts: list[list[int]], numbers: list[int] | None = None) -> Batch:
    """Texts as training gets them: EOS at the end, then padding; the same on both sides."""
    longest = max(map(len, texts)) + 1
    ids = torch.tensor([[*text, EOS, *[PAD] * (longest - len(text) - 1)] for text in texts])
    tokens = int((ids != PAD).sum())
    numbers = list(range(len(texts))) if numbers is None else numbers
    return Batch(ids, ids, ids, torch.tensor(numbers), tokens, tokens)


def hidden(batch: Batch, *, share: float = 0.15, seed: int = 1, epoch: int = 0) -> Batch:
    return hide(batch, vocab_size=V, share=share, seed=seed, epoch=epoch)


texts_of_tokens = st.lists(st.lists(st.integers(4, V - 1), min_size=1, max_size=9), min_size=1, max_size=5)


@settings(max_examples=60)
@given(
    texts=texts_of_tokens, share=st.floats(0.01, 0.99), seed=st.integers(0, 2**40), epoch=st.integers(0, 9)
)
def test_what_is_learned_is_what_was_there_and_the_rest_is_as_it_was(texts, share, seed, epoch):
    before = batch_of(texts)
    batch = hidden(before, share=share, seed=seed, epoch=epoch)
    learned = batch.target_output_ids != PAD
    assert torch.equal(batch.target_output_ids[learned], before.source_ids[learned])
    assert torch.equal(batch.source_ids[~learned], before.source_ids[~learned])
    assert torch.equal(batch.target_input_ids, batch.source_ids)
    assert not learned[(before.source_ids == EOS) | (before.source_ids == PAD)].any(), "ends are never hidden"
    assert learned.any(dim=1).all(), "there is something to learn from each text"
    assert batch.target_tokens == int(learned.sum())
    assert batch.source_tokens == before.source_tokens
    assert torch.equal(batch.pair_indices, before.pair_indices)
    assert int(batch.source_ids[batch.source_ids != PAD].min()) >= EOS


def test_shares_are_those_of_the_source():
    texts = np.random.default_rng(1).integers(4, V, (400, 50)).tolist()
    before = batch_of(texts)
    batch = hidden(before)
    learned = batch.target_output_ids != PAD
    count = int(learned.sum())
    assert count / (400 * 50) == pytest.approx(0.15, abs=0.01)
    there, was = batch.source_ids[learned], before.source_ids[learned]
    assert float((there == MASK_ID).double().mean()) == pytest.approx(0.8, abs=0.02)
    # One in V - 4 of the replaced ones is replaced by itself.
    assert float((there == was).double().mean()) == pytest.approx(0.1 + 0.1 / (V - 4), abs=0.015)
    replaced = there[(there != MASK_ID) & (there != was)]
    assert len(set(replaced.tolist())) > 0.85 * (V - 4), "any token of text may come"


def test_each_place_is_as_likely_as_another():
    before = batch_of([[5 + k for k in range(20)]])
    times = torch.zeros(20)
    for epoch in range(400):
        times += (hidden(before, epoch=epoch).target_output_ids[0, :20] != PAD).float()
    assert 30 < times.min() <= times.max() < 95  # 60 expected, of deviation 7


@settings(max_examples=30)
@given(texts=texts_of_tokens, order=st.randoms(use_true_random=False), seed=st.integers(0, 99))
def test_a_text_is_hidden_alike_whatever_is_beside_it(texts, order, seed):
    whole = hidden(batch_of(texts), seed=seed)
    numbers = list(range(len(texts)))
    order.shuffle(numbers)
    for k in numbers:
        alone = hidden(batch_of([texts[k]], [k]), seed=seed)
        length = alone.source_ids.shape[1]
        assert torch.equal(alone.source_ids[0], whole.source_ids[k, :length])
        assert torch.equal(alone.target_output_ids[0], whole.target_output_ids[k, :length])


def test_the_same_again_and_other_choices_for_other_seeds_epochs_and_texts():
    texts = [[5 + k for k in range(40)]] * 2
    first = hidden(batch_of(texts))
    assert torch.equal(first.source_ids, hidden(batch_of(texts)).source_ids)
    assert not torch.equal(first.source_ids[0], first.source_ids[1])
    for change in ({"seed": 2}, {"epoch": 1}):
        assert not torch.equal(first.source_ids, hidden(batch_of(texts), **change).source_ids)


def test_what_it_is_made_of_is_left_alone():
    before = batch_of([[5, 6, 7, 8]])
    kept = before.source_ids.clone()
    hidden(before, share=0.9)
    assert torch.equal(before.source_ids, kept)


def test_nothing_but_the_chosen_tokens_is_in_the_loss():
    model = build_one_stack(ONE_STACK["encoder_only"])
    ids = 1 + random_ids(model.config.vocab_size - 1, [6, 4], seed=1, pad_id=-1)
    batch = hide(
        Batch(ids, ids, ids, torch.arange(2), 10, 10),
        vocab_size=model.config.vocab_size,
        share=0.4,
        seed=1,
        epoch=0,
    )
    loss = output_loss(
        model.hidden(batch.source_ids, batch.target_input_ids),
        model.output_weight,
        batch.target_output_ids,
        0.0,
        pad_id=PAD,
    )
    log_p = model(batch.source_ids).log_softmax(dim=-1)
    places = [tuple(place) for place in (batch.target_output_ids != PAD).nonzero().tolist()]
    want = -sum(log_p[b, s, ids[b, s]] for b, s in places)
    torch.testing.assert_close(loss.nll, want.detach(), rtol=1e-9, atol=1e-9)
    assert loss.tokens == len(places) == batch.target_tokens


@pytest.mark.parametrize("tokens_at_once", [4, 9, 14, 30])
def test_pieces_keep_every_row_whole(tokens_at_once):
    """What is learned has gaps: a row ends where its text does, not where as many columns are as are learned."""
    batch = hidden(batch_of([[5, 6, 7], [8, 9, 10, 11, 12, 13], [14], [15, 16, 17, 18]]), share=0.3)
    cut = list(pieces(batch, tokens_at_once))
    assert sum(piece.target_tokens for piece in cut) == batch.target_tokens
    assert sum(piece.source_tokens for piece in cut) == batch.source_tokens
    rows = [(piece, row) for piece in cut for row in range(len(piece))]
    assert len(rows) == 4
    for number, (piece, row) in enumerate(rows):
        width = piece.source_ids.shape[1]
        assert piece.target_output_ids.shape == piece.target_input_ids.shape == piece.source_ids.shape
        for name in ("source_ids", "target_output_ids"):
            whole = getattr(batch, name)[number]
            assert torch.equal(getattr(piece, name)[row], whole[:width])
            assert not (whole[width:] != PAD).any()
