"""Several sentences packed into a row give what each gives alone.

Paper: 3.2.3
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import CONFIGS, build, random_ids
from torch import Tensor

from dragoman.model.mask import segment_positions
from dragoman.model.transformer import Transformer


def pack(sentences: list[Tensor], *, width: int) -> tuple[Tensor, Tensor]:
    """One row of ids and one of segment numbers, padded to `width`."""
    ids, segments = torch.zeros(1, width, dtype=torch.int64), torch.zeros(1, width, dtype=torch.int64)
    start = 0
    for number, sentence in enumerate(sentences, start=1):
        ids[0, start : start + len(sentence)] = sentence
        segments[0, start : start + len(sentence)] = number
        start += len(sentence)
    return ids, segments


def tokens(rows: int, lengths: list[int], *, seed: int) -> list[Tensor]:
    return [random_ids(rows, [length], seed=seed + i)[0] for i, length in enumerate(lengths)]


def packed_logits(
    model: Transformer, sources: list[Tensor], targets: list[Tensor], *, room: int
) -> list[Tensor]:
    source_ids, source_segments = pack(sources, width=sum(map(len, sources)) + room)
    target_ids, target_segments = pack(targets, width=sum(map(len, targets)) + room)
    logits = model(source_ids, target_ids, source_segments=source_segments, target_segments=target_segments)
    assert logits.isfinite().all()
    return list(logits[0][target_segments[0] != 0].split([len(target) for target in targets]))


@settings(max_examples=40)
@given(
    name=st.sampled_from(sorted(CONFIGS)),
    pairs=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=4),
    room=st.integers(0, 4),
    seed=st.integers(0, 2**20),
)
def test_a_packed_row_equals_its_sentences_alone(name, pairs, room, seed):
    model = build(CONFIGS[name], seed=seed)
    sources = tokens(model.config.source_rows, [S for S, _ in pairs], seed=seed)
    targets = tokens(model.config.vocab_size, [T for _, T in pairs], seed=seed + 100)
    got = packed_logits(model, sources, targets, room=room)
    for logits, source, target in zip(got, sources, targets, strict=True):
        torch.testing.assert_close(logits, model(source[None], target[None])[0], rtol=1e-11, atol=1e-11)


def test_gradients_of_a_packed_row_are_the_sum_of_those_alone():
    model = build(CONFIGS["odd_heads"])
    sources, targets = tokens(11, [3, 2, 4], seed=1), tokens(11, [2, 5, 1], seed=2)
    parameters = list(model.parameters())
    loss = sum(logits.sin().sum() for logits in packed_logits(model, sources, targets, room=3))
    packed = torch.autograd.grad(loss, parameters)
    alone = sum(
        model(source[None], target[None]).sin().sum() for source, target in zip(sources, targets, strict=True)
    )
    for got, want in zip(packed, torch.autograd.grad(alone, parameters), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)


def test_a_row_packed_beyond_the_table_of_positions():
    model = build(CONFIGS["paper"])
    model.position.table = model.position.table[:2]
    sources, targets = tokens(13, [3, 6], seed=1), tokens(13, [5, 4], seed=2)
    got = packed_logits(model, sources, targets, room=0)
    whole = build(CONFIGS["paper"])
    for logits, source, target in zip(got, sources, targets, strict=True):
        torch.testing.assert_close(logits, whole(source[None], target[None])[0])


def test_positions_begin_anew_with_each_sentence():
    segments = torch.tensor([[1, 1, 1, 2, 3, 3, 0, 0]])
    assert segment_positions(segments).tolist() == [[0, 1, 2, 0, 0, 1, 0, 1]]


@pytest.mark.parametrize("given_side", ["source_segments", "target_segments"])
def test_segments_of_one_side_alone_are_refused(given_side):
    model = build(CONFIGS["paper"])
    ids = random_ids(13, [3], seed=1)
    with pytest.raises(AssertionError, match="both sides"):
        model(ids, ids, **{given_side: torch.ones_like(ids)})
