"""Roles of pairs, looked up block by block."""

from __future__ import annotations

import numpy as np
import pytest

from dragoman.data import census
from dragoman.data.census import Role


@pytest.mark.parametrize("block", [1, 2, 7, 1000])
@pytest.mark.parametrize("count", [0, 1, 5, 20])
def test_the_nth_pair_of_a_role_is_found_whatever_the_blocks(monkeypatch, block, count):
    monkeypatch.setattr(census, "_BLOCK_PAIRS", block)
    draw = np.random.default_rng(block)
    roles = draw.choice([Role.BLANK, Role.TRAIN, Role.DEV], size=60).astype(np.uint8)
    places = np.flatnonzero(roles == Role.TRAIN)
    ranks = np.sort(draw.choice(len(places), size=min(count, len(places)), replace=False))
    assert census._places(roles, Role.TRAIN, ranks).tolist() == places[ranks].tolist()
