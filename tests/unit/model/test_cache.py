"""A decoder layer's memory between steps."""

from __future__ import annotations

import torch

from dragoman.model.cache import GROWTH, LayerCache


def empty(B: int = 2) -> LayerCache:
    source_K, source_V = torch.randn(B, 3, 5, 4), torch.randn(B, 3, 5, 6)
    return LayerCache.empty(source_K, source_V, torch.ones(B, 1, 1, 5, dtype=torch.bool))


def position(R: int, number: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values that say which position and row they are of."""
    rows = torch.arange(float(R)).view(R, 1, 1, 1)
    return (100 * number + rows).expand(R, 3, 1, 4), (-100 * number - rows).expand(R, 3, 1, 6)


def test_it_begins_empty_with_a_row_a_sentence():
    cache = empty()
    assert cache.length == 0
    assert cache.K.shape == (2, 3, GROWTH, 4)
    assert cache.V.shape == (2, 3, GROWTH, 6)


def test_positions_come_back_in_order_beyond_any_number():
    cache = empty()
    steps = 2 * GROWTH + 3
    for t in range(steps):
        K, V = cache.append(*position(2, t))
        assert K.shape == (2, 3, t + 1, 4)
        assert V.shape == (2, 3, t + 1, 6)
    assert cache.length == steps
    assert K[1, 2, :, 3].tolist() == [100.0 * t + 1 for t in range(steps)]
    assert V[0, 0, :, 5].tolist() == [-100.0 * t for t in range(steps)]


def test_room_grows_in_fixed_steps():
    cache = empty()
    rooms = set()
    for t in range(3 * GROWTH):
        cache.append(*position(2, t))
        rooms.add(cache.K.shape[2])
        assert cache.K.shape[2] == cache.V.shape[2]
    assert rooms == {GROWTH, 2 * GROWTH, 3 * GROWTH}


def test_rows_go_on_from_the_rows_named():
    cache = empty()
    cache.append(*position(2, 0))
    source_K = cache.source_K
    cache.reorder(torch.tensor([1, 1, 0, 1]), None)
    K, _ = cache.append(*position(4, 1))
    assert K[:, 0, :, 0].tolist() == [[1.0, 100.0], [1.0, 101.0], [0.0, 102.0], [1.0, 103.0]]
    assert cache.source_K is source_K


def test_only_the_sentences_named_stay():
    cache = empty(3)
    source_K, source_V = cache.source_K, cache.source_V
    cache.source_mask[2, ..., 4] = False
    cache.append(*position(3, 0))
    cache.reorder(torch.tensor([2, 0]), torch.tensor([2, 0]))
    assert torch.equal(cache.source_K, source_K[[2, 0]])
    assert torch.equal(cache.source_V, source_V[[2, 0]])
    assert cache.source_mask[:, 0, 0, 4].tolist() == [False, True]
    assert cache.K[:, 0, 0, 0].tolist() == [2.0, 0.0]


def test_rows_that_share_a_parent_do_not_share_memory():
    cache = empty(1)
    cache.append(*position(1, 0))
    cache.reorder(torch.tensor([0, 0]), None)
    cache.K[0] = 7.0
    assert (cache.K[1] != 7.0).all()
