"""Decoding a token at a time gives the logits of decoding the whole prefix (invariant I21).

The prefixes are kept beside the cache in plain lists, and reordered by plain indexing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import CONFIGS, build, random_ids
from torch import Tensor

from dragoman.model import incremental
from dragoman.model.cache import GROWTH
from dragoman.model.embedding import output_map
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.mask import padding_mask
from dragoman.model.transformer import Transformer

BOS = 2
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-12}


class Prefixes:
    """What the cache stands for: the sources still searched, and the K prefixes of each."""

    def __init__(self, source_ids: Tensor) -> None:
        self.source_ids = source_ids
        self.prefixes = torch.empty(len(source_ids), 1, 0, dtype=torch.int64)

    def append(self, tokens: Tensor) -> None:
        self.prefixes = torch.cat([self.prefixes, tokens[:, :, None]], dim=2)

    def reorder(self, sentences: Tensor, parents: Tensor) -> None:
        self.source_ids = self.source_ids[sentences]
        kept = [self.prefixes[s][parents[i]] for i, s in enumerate(sentences.tolist())]
        self.prefixes = torch.stack(kept)

    @torch.no_grad()
    def logits(self, model: Transformer) -> Tensor:
        """Of the token after each prefix, every prefix by itself."""
        rows = []
        for source, prefixes in zip(self.source_ids, self.prefixes, strict=True):
            memory, mask = model.encode(source[None]), padding_mask(source[None], model.config.pad_id)
            rows.append(torch.cat([model.decode(prefix[None], memory, mask)[:, -1] for prefix in prefixes]))
        return torch.stack(rows)


@contextmanager
def unrounded() -> Iterator[list[Tensor]]:
    """The logits of each step as they are before the decoder rounds them to float32."""
    logits: list[Tensor] = []

    def noted(x: Tensor, weight: Tensor) -> Tensor:
        logits.append(output_map(x, weight))
        return logits[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental, "output_map", noted)
        yield logits


def assert_steps_equal(
    model: Transformer, source_ids: Tensor, *, steps: int, seed: int, widths: range, may_drop: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    decoder, kept = IncrementalDecoder(model, source_ids), Prefixes(source_ids)
    tokens = torch.full((len(source_ids), 1), BOS)
    tolerance = TOLERANCES[model.dtype]
    for _ in range(steps):
        kept.append(tokens)
        with unrounded() as logits:
            got = decoder(tokens)
        torch.testing.assert_close(logits[0], kept.logits(model), rtol=tolerance, atol=tolerance)
        assert torch.equal(got, logits[0].float())
        B, K = tokens.shape
        few = int(torch.randint(1, B + 1, (), generator=generator)) if may_drop else B
        sentences = torch.randperm(B, generator=generator)[:few]
        K_next = int(torch.randint(widths.start, widths.stop, (), generator=generator))
        parents = torch.randint(0, K, (few, K_next), generator=generator)
        decoder.reorder(sentences, parents)
        kept.reorder(sentences, parents)
        tokens = torch.randint(0, model.config.vocab_size, (few, K_next), generator=generator)


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
