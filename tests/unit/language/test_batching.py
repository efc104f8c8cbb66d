"""Rows that are computed together: every one once, of one length, no more than fit."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.language.batching import LENGTH_MULTIPLE, as_tensor, padded_length, runs_of_one_length


@given(lengths=st.lists(st.integers(0, 40), max_size=60), tokens=st.integers(1, 100))
def test_every_row_once_with_those_of_its_length(lengths, tokens):
    runs = list(runs_of_one_length(lengths, tokens))
    assert sorted(k for run in runs for k in run) == list(range(len(lengths)))
    for run in runs:
        [length] = {lengths[k] for k in run}
        assert len(run) == 1 or len(run) * length <= tokens
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
