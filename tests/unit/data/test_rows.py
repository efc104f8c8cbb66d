"""Rows that are computed together: every one once, of one length, no more than fit."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.rows import LENGTH_MULTIPLE, as_tensor, padded_length, runs_of_one_length


@given(
    lengths=st.lists(st.integers(0, 40), max_size=60),
    tokens=st.integers(1, 100),
    most_rows=st.none() | st.integers(1, 5),
)
def test_every_row_once_with_those_of_its_length(lengths, tokens, most_rows):
    runs = list(runs_of_one_length(lengths, tokens, most_rows))
    assert sorted(k for run in runs for k in run) == list(range(len(lengths)))
    for run in runs:
        [length] = {lengths[k] for k in run}
        assert len(run) == 1 or len(run) * length <= tokens
        assert most_rows is None or len(run) <= most_rows
    firsts = [lengths[run[0]] for run in runs]
    assert firsts == sorted(firsts, reverse=True)


@given(st.integers(1, 1000))
def test_padded_lengths_are_multiples(length):
    padded = padded_length(length)
    assert padded % LENGTH_MULTIPLE == 0
    assert length <= padded < length + LENGTH_MULTIPLE


def test_padding_is_at_the_end():
    rows = as_tensor([[5, 6], [7]], 3, torch.device("cpu"))
    assert rows.tolist() == [[5, 6, 0], [7, 0, 0]]
