"""Batches: the right ids in the right places, and a cursor that goes on where it was.

Paper: 5.1
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest
import torch

from dragoman.data.batches import (
    LENGTH_MULTIPLE,
    Batch,
    BatchLoader,
    BatchPlan,
    Cursor,
    dev_batches,
    make_batch,
)
from dragoman.data.manifest import Side
from dragoman.data.shards import PairShards
from dragoman.errors import ConfigError, DataError
from dragoman.text.subwords import Subwords

PAD, EOS, BOS = Subwords.PAD_ID, Subwords.EOS_ID, Subwords.BOS_ID
Make = Callable[..., PairShards]


@pytest.fixture
def shards(make_shards: Make) -> PairShards:
    random = np.random.default_rng(0)
    pairs = [
        (random.integers(4, 100, random.integers(1, 12)), random.integers(4, 100, random.integers(1, 12)))
        for _ in range(60)
    ]
    return make_shards([(source.tolist(), target.tolist()) for source, target in pairs])


def loader(shards: PairShards, *, seed: int = 3, **options: object) -> BatchLoader:
    plan = BatchPlan.of(shards, source_tokens=40, target_tokens=40, seed=seed, max_length=20)
    return BatchLoader(shards, plan, **options)  # type: ignore[arg-type]


def seen(batches: object, count: int) -> list[tuple[list[int], Cursor]]:
    return [(batch.pair_indices.tolist(), cursor) for batch, cursor in islice(batches, count)]  # type: ignore[call-overload]


def test_a_batch_written_out(make_shards: Make) -> None:
    batch = make_batch(make_shards([([4, 5], [6]), ([7], [8, 9])]), np.array([1, 0]))
    assert batch.source_ids.tolist() == [[7, EOS, PAD, PAD], [4, 5, EOS, PAD]]
    assert batch.target_input_ids.tolist() == [[BOS, 8, 9, PAD], [BOS, 6, PAD, PAD]]
    assert batch.target_output_ids.tolist() == [[8, 9, EOS, PAD], [6, EOS, PAD, PAD]]
    assert batch.pair_indices.tolist() == [1, 0]
    assert (batch.source_tokens, batch.target_tokens, len(batch)) == (5, 5, 2)


def test_tensors_are_int64_and_share_nothing_with_the_shards(make_shards: Make) -> None:
    shards = make_shards([([4, 5], [6])])
    batch = make_batch(shards, np.array([0]))
    for tensor in (batch.source_ids, batch.target_input_ids, batch.target_output_ids, batch.pair_indices):
        assert tensor.dtype == torch.int64
        tensor.fill_(9)
    assert shards.source(0).tolist() == [4, 5, EOS]
    assert shards.target(0).tolist() == [6, EOS]


def test_an_empty_unit_is_its_eos(make_shards: Make) -> None:
    batch = make_batch(make_shards([([], []), ([5], [6])]), np.array([0, 1]))
    assert batch.source_ids.tolist() == [[EOS, PAD, PAD, PAD], [5, EOS, PAD, PAD]]
    assert batch.target_input_ids.tolist() == [[BOS, PAD, PAD, PAD], [BOS, 6, PAD, PAD]]
    assert batch.target_output_ids.tolist() == [[EOS, PAD, PAD, PAD], [6, EOS, PAD, PAD]]


def test_every_row_is_its_pair(shards: PairShards) -> None:
    for batch, _ in islice(loader(shards).batches(), 20):
        for row, k in enumerate(batch.pair_indices.tolist()):
            source, target = shards.source(k).tolist(), shards.target(k).tolist()
            shifted = [BOS, *target[:-1]]
            assert batch.source_ids[row].tolist() == source + [PAD] * (
                batch.source_ids.shape[1] - len(source)
            )
            padding = [PAD] * (batch.target_output_ids.shape[1] - len(target))
            assert batch.target_output_ids[row].tolist() == target + padding
            assert batch.target_input_ids[row].tolist() == shifted + padding


def test_columns_are_those_of_the_longest_unit_and_the_few_up_to_a_round_number(shards: PairShards) -> None:
    for batch, _ in islice(loader(shards).batches(), 20):
        for ids in (batch.source_ids, batch.target_input_ids, batch.target_output_ids):
            longest = int((ids != PAD).any(dim=0).sum())
            assert ids.shape[1] % LENGTH_MULTIPLE == 0
            assert longest <= ids.shape[1] < longest + LENGTH_MULTIPLE


def test_token_counts_are_those_of_the_tensors(shards: PairShards) -> None:
    for batch, _ in islice(loader(shards).batches(), 20):
        assert batch.source_tokens == int((batch.source_ids != PAD).sum()) <= 40
        assert batch.target_tokens == int((batch.target_output_ids != PAD).sum()) <= 40


def test_to_keeps_everything(shards: PairShards) -> None:
    batch = make_batch(shards, np.array([3, 4]))
    moved = batch.to("meta")
    assert moved.source_ids.device.type == moved.target_output_ids.device.type == "meta"
    assert moved.target_input_ids.shape == batch.target_input_ids.shape
    assert (moved.source_tokens, moved.target_tokens) == (batch.source_tokens, batch.target_tokens)


def test_an_epoch_is_every_pair_once_and_the_cursor_says_so(shards: PairShards) -> None:
    made = loader(shards)
    first = seen(made.batches(), len(made.plan))
    assert sorted(k for indices, _ in first for k in indices) == list(range(60))
    assert [cursor for _, cursor in first[:-1]] == [Cursor(0, n) for n in range(1, len(made.plan))]
    assert first[-1][1] == Cursor(1, 0)


def test_any_cursor_goes_on_as_the_uninterrupted_sequence_does(shards: PairShards) -> None:
    made = loader(shards)
    whole = seen(made.batches(), 3 * len(made.plan))
    for done in range(0, len(whole), 3):
        start = whole[done - 1][1] if done else Cursor()
        assert seen(loader(shards).batches(start), 5) == whole[done : done + 5] or done + 5 > len(whole)


def test_the_end_of_an_epoch_may_be_named_in_two_ways(shards: PairShards) -> None:
    made = loader(shards)
    assert seen(made.batches(Cursor(0, len(made.plan))), 3) == seen(made.batches(Cursor(1, 0)), 3)


@pytest.mark.parametrize("cursor", [Cursor(-1, 0), Cursor(0, -1), Cursor(0, 1_000)])
def test_a_cursor_of_another_plan_is_refused_before_the_first_batch(
    shards: PairShards, cursor: Cursor
) -> None:
    with pytest.raises(ConfigError, match="is no place") as caught:
        loader(shards).batches(cursor)
    assert "budgets" in str(caught.value)


@pytest.mark.parametrize("prefetch", [1, 2, 7])
def test_prefetching_changes_nothing(shards: PairShards, prefetch: int) -> None:
    assert seen(loader(shards, prefetch=prefetch).batches(), 50) == seen(
        loader(shards, prefetch=0).batches(), 50
    )


def test_closing_ends_the_thread(shards: PairShards) -> None:
    batches = loader(shards).batches()
    next(batches)
    assert any(thread.name == "dragoman-prefetch" for thread in threading.enumerate())
    batches.close()  # type: ignore[attr-defined]
    assert not any(thread.name == "dragoman-prefetch" for thread in threading.enumerate())


def test_shards_of_another_size_are_refused(shards: PairShards, make_shards: Make) -> None:
    with pytest.raises(DataError, match="60 pairs, the shards hold 1"):
        BatchLoader(make_shards([([4], [5])]), loader(shards).plan)


def test_a_negative_prefetch_is_refused(shards: PairShards) -> None:
    with pytest.raises(ConfigError, match="prefetch"):
        loader(shards, prefetch=-1)


def test_a_segmenter_gets_ids_without_eos_and_its_ids_are_used(make_shards: Make) -> None:
    shards = make_shards([([4, 5], [6]), ([7], [8, 9])])
    asked: list[tuple[Side, list[int], int, int]] = []

    def doubled(side: Side, ids: np.ndarray, pair: int, epoch: int) -> list[int]:
        asked.append((side, ids.tolist(), pair, epoch))
        return [k for k in ids.tolist() for _ in range(2)]

    batch = make_batch(shards, np.array([1, 0]), segment=doubled, epoch=5)
    assert asked == [
        ("source", [7], 1, 5),
        ("source", [4, 5], 0, 5),
        ("target", [8, 9], 1, 5),
        ("target", [6], 0, 5),
    ]
    assert batch.source_ids.tolist() == [[7, 7, EOS] + [PAD] * 5, [4, 4, 5, 5, EOS] + [PAD] * 3]
    assert batch.target_output_ids.tolist() == [[8, 8, 9, 9, EOS] + [PAD] * 3, [6, 6, EOS] + [PAD] * 5]
    assert batch.source_tokens == batch.target_tokens == 8


def test_a_segmenter_is_told_the_epoch_of_the_batch(shards: PairShards) -> None:
    epochs: list[int] = []

    def telling(side: Side, ids: np.ndarray, pair: int, epoch: int) -> list[int]:
        epochs.append(epoch)
        return [int(k) for k in ids]

    made = loader(shards, segment=telling, prefetch=0)
    plain = seen(loader(shards).batches(Cursor(4, 0)), len(made.plan) + 1)
    assert seen(made.batches(Cursor(4, 0)), len(made.plan) + 1) == plain
    assert epochs[: 2 * 60] == [4] * 120
    assert set(epochs[120:]) == {5}


def test_ids_of_a_segmenter_that_are_too_long_are_not_used(shards: PairShards) -> None:
    def long(side: Side, ids: np.ndarray, pair: int, epoch: int) -> list[int]:
        return [9] * (19 if pair % 2 else 20)  # 20 is max_length, EOS counted

    for batch, _ in islice(loader(shards, segment=long).batches(), 5):
        for row, pair in enumerate(batch.pair_indices.tolist()):
            ids = [int(k) for k in batch.source_ids[row] if k != PAD]
            assert ids == ([9] * 19 + [EOS] if pair % 2 else shards.source(pair).tolist())


def order_of(batches: list[Batch]) -> list[int]:
    return [int(k) for batch in batches for k in batch.pair_indices]


def test_dev_batches_are_all_pairs_shortest_first_each_time_the_same(shards: PairShards) -> None:
    batches = list(dev_batches(shards, 30))
    assert sorted(order_of(batches)) == list(range(60))
    assert order_of(batches) == order_of(list(dev_batches(shards, 30)))
    longest = [max(batch.source_ids.shape[1], batch.target_output_ids.shape[1]) for batch in batches]
    assert longest == sorted(longest)
    assert all(batch.target_tokens <= 30 and batch.source_tokens <= 30 for batch in batches)


def test_dev_batches_leave_out_no_long_pair(make_shards: Make) -> None:
    shards = make_shards([([4] * 300, [5] * 400), ([6], [7])])
    batches = list(dev_batches(shards, 20))
    assert [batch.target_tokens for batch in batches] == [2, 401]


def test_dev_batches_take_a_budget_of_their_own_for_sources(shards: PairShards) -> None:
    wide = list(dev_batches(shards, 100, source_tokens=15))
    assert all(batch.source_tokens <= 15 for batch in wide)
