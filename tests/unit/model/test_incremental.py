"""The step function of a search: shapes, formats and modes. Its numbers: parity/test_cached.py.

Paper: 3
"""

from __future__ import annotations

import pytest
import torch
from random_models import CONFIGS, build, random_ids

from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.mask import padding_mask

BOS = 2


def test_the_first_step_follows_the_beginning_of_the_sentence():
    model = build(CONFIGS["paper"])
    source_ids = random_ids(13, [5, 2], seed=1)
    got = IncrementalDecoder(model, source_ids)(torch.full((2, 1), BOS))
    assert got.shape == (2, 1, 13)
    want = model.decode(torch.full((2, 1), BOS), model.encode(source_ids), padding_mask(source_ids, 0))
    torch.testing.assert_close(got, want.detach().float())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_logits_are_float32_whatever_the_weights_are(dtype):
    decoder = IncrementalDecoder(build(CONFIGS["paper"], dtype=dtype), random_ids(13, [5], seed=1))
    logits = decoder(torch.tensor([[BOS]]))
    assert logits.dtype == torch.float32
    assert not logits.requires_grad


def test_beams_of_one_parent_begin_alike_and_then_differ():
    model = build(CONFIGS["paper"])
    decoder = IncrementalDecoder(model, random_ids(13, [5], seed=1))
    decoder(torch.tensor([[BOS]]))
    decoder.reorder(torch.tensor([0]), torch.tensor([[0, 0, 0]]))
    logits = decoder(torch.tensor([[7, 7, 9]]))
    assert logits.shape == (1, 3, 13)
    torch.testing.assert_close(logits[0, 0], logits[0, 1])
    assert not torch.allclose(logits[0, 0], logits[0, 2], atol=1e-3)


@pytest.mark.parametrize("sentences", [[1, 0], [0, 0], [1, 1], [1], [0]], ids=str)
def test_sources_follow_their_sentences(sentences):
    """Also where as many stay as there were: in another order, or one of them twice."""
    model = build(CONFIGS["paper"])
    source_ids = random_ids(13, [5, 3], seed=1)
    decoder = IncrementalDecoder(model, source_ids)
    decoder(torch.full((2, 1), BOS))
    decoder.reorder(torch.tensor(sentences), torch.zeros(len(sentences), 1, dtype=torch.int64))
    got = decoder(torch.full((len(sentences), 1), 4))
    prefix = torch.tensor([[BOS, 4]]).expand(len(sentences), 2)
    want = model(source_ids[sentences], prefix)[:, -1:]
    torch.testing.assert_close(got, want.detach().float())


def test_the_source_is_encoded_once(monkeypatch):
    model = build(CONFIGS["paper"])
    passes = []
    model.encoder[0].register_forward_hook(lambda *args: passes.append(1))
    decoder = IncrementalDecoder(model, random_ids(13, [5], seed=1))
    for token in (BOS, 4, 5):
        decoder(torch.tensor([[token]]))
    assert len(passes) == 1


def test_a_source_of_no_tokens_gives_numbers():
    decoder = IncrementalDecoder(build(CONFIGS["paper"]), torch.zeros(1, 0, dtype=torch.int64))
    assert decoder(torch.tensor([[BOS]])).isfinite().all()
