"""Sinusoidal positions: where they start, that they are added, and that there is no longest one.

Paper: 3.5
"""

from __future__ import annotations

import copy
import math

import pytest
import torch

from dragoman.model.position import INITIAL_LENGTH, SinusoidalPosition, sinusoids


def test_the_first_position_is_zero():
    assert sinusoids(1, 6).tolist() == [[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]]


def test_the_fastest_pair_turns_by_one_radian_a_position():
    table = sinusoids(4, 6)
    assert table[3, 0].item() == pytest.approx(math.sin(3.0), abs=1e-15)
    assert table[3, 1].item() == pytest.approx(math.cos(3.0), abs=1e-15)
    assert table[3, 4].item() == pytest.approx(math.sin(3.0 / 10000 ** (4 / 6)), abs=1e-15)


def test_positions_are_added_and_alike_for_every_sentence():
    position = SinusoidalPosition(8)
    x = torch.randn(2, 5, 8)
    added = position(x) - x
    torch.testing.assert_close(added[0], sinusoids(5, 8).float(), rtol=0, atol=1e-6)
    torch.testing.assert_close(added[1], added[0], rtol=0, atol=1e-6)


def test_positions_that_are_given_are_used():
    position = SinusoidalPosition(8)
    x = torch.zeros(2, 3, 8)
    given = torch.tensor([[0, 1, 0], [7, 7, 2]])
    assert torch.equal(position(x, given), sinusoids(8, 8).float()[given])
    assert torch.equal(position(x, torch.arange(3).expand(2, 3)), position(x))


@pytest.mark.parametrize("length", [INITIAL_LENGTH, INITIAL_LENGTH + 1, 3 * INITIAL_LENGTH])
@pytest.mark.parametrize("inference", [False, True])
def test_there_is_no_longest_position(length, inference):
    position = SinusoidalPosition(8)
    with torch.inference_mode(inference):
        rows = position.rows(length)
    torch.testing.assert_close(rows, sinusoids(length, 8).float(), rtol=0, atol=0)
    assert len(position.table) >= length
    assert not position.table.is_inference()


def test_a_table_that_grew_keeps_its_number_format():
    position = SinusoidalPosition(8).to(torch.bfloat16)
    assert position.rows(INITIAL_LENGTH + 1).dtype == torch.bfloat16


def test_it_is_no_parameter_and_not_in_the_weights():
    position = SinusoidalPosition(8)
    assert list(position.parameters()) == []
    assert position.state_dict() == {}
    grown = copy.deepcopy(position)
    grown.rows(2 * INITIAL_LENGTH)
    position.load_state_dict(grown.state_dict())
