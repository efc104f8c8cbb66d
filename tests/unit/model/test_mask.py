"""Masks: True = may attend.

Paper: 3.1, 3.2.3
"""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.mask import causal_mask, padding_mask, segment_mask, segment_positions

SEGMENTS = st.lists(st.integers(1, 4), min_size=0, max_size=4)


def test_padding_may_not_be_attended_to():
    mask = padding_mask(torch.tensor([[5, 0, 3], [0, 0, 9]]), 0)
    assert mask.shape == (2, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, False, True], [False, False, True]]


def test_padding_is_whatever_id_it_is_said_to_be():
    assert padding_mask(torch.tensor([[5, 0, 3]]), 3)[0, 0, 0].tolist() == [True, True, False]


def test_a_position_sees_itself_and_those_before():
    assert causal_mask(3)[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert causal_mask(3).dtype == torch.bool
    assert causal_mask(0).shape == (1, 1, 0, 0)


def test_segments_see_only_their_own():
    mask = segment_mask(torch.tensor([[1, 2, 0]]), torch.tensor([[1, 1, 2, 0]]))
    assert mask.shape == (1, 1, 3, 4)
    assert mask[0, 0].tolist() == [
        [True, True, False, False],
        [False, False, True, False],
        [False, False, False, False],
    ]


def row(lengths: list[int], padding: int) -> torch.Tensor:
    numbers = [number for number, length in enumerate(lengths, start=1) for _ in range(length)]
    return torch.tensor([numbers + [0] * padding], dtype=torch.int64)


@given(lengths=SEGMENTS, padding=st.integers(0, 3))
def test_positions_count_from_the_start_of_each_sentence(lengths, padding):
    expected = [position for length in lengths for position in range(length)] + list(range(padding))
    assert segment_positions(row(lengths, padding)).tolist() == [expected]


@given(queries=SEGMENTS, keys=SEGMENTS, padding=st.integers(0, 2))
def test_segment_masks_are_equality_of_numbers_that_are_not_zero(queries, keys, padding):
    query_row, key_row = row(queries, padding), row(keys, padding)
    got = segment_mask(query_row, key_row)[0, 0].tolist()
    assert got == [[q == k != 0 for k in key_row[0].tolist()] for q in query_row[0].tolist()]


def test_rows_of_a_batch_are_apart():
    segments = torch.tensor([[1, 1, 2], [1, 2, 2]])
    assert segment_positions(segments).tolist() == [[0, 1, 0], [0, 0, 1]]
    both = segment_mask(segments, segments)
    assert torch.equal(both[1], segment_mask(segments[1:], segments[1:])[0])
