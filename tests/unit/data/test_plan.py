"""Batch plans: every pair once, both budgets kept, order from (seed, epoch) alone.

Paper: 5.1
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dragoman.data.plan import PADDED_BUDGETS, BatchPlan, cut, length_keys
from dragoman.errors import ConfigError, DataError


def lengths(count: int, *, seed: int = 0, most: int = 40) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.integers(1, most, count, dtype=np.int32), random.integers(1, most, count, dtype=np.int32)


def plan_of(count: int = 500, *, budget: int = 200, seed: int = 7, max_length: int = 100) -> BatchPlan:
    return BatchPlan(*lengths(count), budget, budget, seed, max_length)


def flat(batches: list[np.ndarray]) -> list[int]:
    return [int(k) for pairs in batches for k in pairs]


def test_every_pair_is_in_one_batch_of_each_epoch() -> None:
    plan = plan_of()
    for epoch in range(3):
        assert sorted(flat(plan.epoch(epoch))) == list(range(500))


def test_both_budgets_and_the_padded_size_are_kept() -> None:
    plan = plan_of()
    for pairs in plan.epoch(0):
        for side in (plan.source_lengths, plan.target_lengths):
            assert side[pairs].sum() <= 200
            assert len(pairs) * side[pairs].max() <= PADDED_BUDGETS * 200


def test_budgets_are_kept_apart() -> None:
    plan = BatchPlan(*lengths(500), source_tokens=1_000, target_tokens=50, seed=1, max_length=50)
    sums = [(plan.source_lengths[p].sum(), plan.target_lengths[p].sum()) for p in plan.epoch(0)]
    assert max(target for _, target in sums) <= 50
    assert max(source for source, _ in sums) > 50


def test_the_order_is_that_of_seed_and_epoch_and_of_nothing_else() -> None:
    first = plan_of()
    for _ in range(4):
        first.epoch(9)  # what was asked before does not matter
    assert flat(first.epoch(3)) == flat(plan_of().epoch(3))
    assert flat(first.epoch(3)) != flat(first.epoch(4))
    assert flat(first.epoch(3)) != flat(plan_of(seed=8).epoch(3))


def test_the_order_is_known_for_all_time() -> None:
    # A change here breaks the resumption of every run.
    plan = BatchPlan(np.array([3, 1, 2, 3, 5], np.int32), np.array([2, 2, 2, 3, 1], np.int32), 6, 6, 1, 6)
    assert [pairs.tolist() for pairs in plan.epoch(0)] == [[3], [1, 2, 0], [4]]
    assert [pairs.tolist() for pairs in plan.epoch(1)] == [[1, 2, 0], [4], [3]]


def test_similar_lengths_are_together() -> None:
    source, more = lengths(5_000)
    plan = BatchPlan(source, np.maximum(1, source + more % 5 - 2).astype(np.int32), 2_000, 2_000, 1, 256)
    padded = tokens = 0
    for pairs in plan.epoch(0):
        for side in (plan.source_lengths, plan.target_lengths):
            padded += len(pairs) * int(side[pairs].max())
            tokens += int(side[pairs].sum())
    assert 1 - tokens / padded < 0.10


def test_batches_come_in_random_order_of_length() -> None:
    plan = plan_of()
    longest = [int(plan.source_lengths[pairs].max()) for pairs in plan.epoch(0)]
    assert longest != sorted(longest)


def test_pairs_of_equal_lengths_are_with_others_in_each_epoch() -> None:
    same = np.full(100, 5, np.int32)
    plan = BatchPlan(same, same, 50, 50, 1, 50)
    assert {frozenset(p.tolist()) for p in plan.epoch(0)} != {frozenset(p.tolist()) for p in plan.epoch(1)}


def test_epochs_have_the_same_number_of_batches_of_the_same_shapes() -> None:
    plan = plan_of()

    def shapes(epoch: int) -> list[tuple[int, int, int]]:
        found = plan.epoch(epoch)
        return sorted(
            (len(p), int(plan.source_lengths[p].max()), int(plan.target_lengths[p].max())) for p in found
        )

    assert len(plan) == len(shapes(0))
    assert shapes(0) == shapes(1)


def test_too_long_pairs_are_left_out_counted_and_said() -> None:
    source, target = np.array([3, 11, 4, 2], np.int32), np.array([3, 2, 12, 10], np.int32)
    plan = BatchPlan(source, target, 20, 20, 1, max_length=10)
    assert plan.left_out.tolist() == [1, 2]
    assert sorted(flat(plan.epoch(0))) == [0, 3]
    assert plan.notes == ("2 of 4 pairs have over 10 tokens on a side and are not trained on",)
    assert plan_of().notes == ()


@pytest.mark.parametrize("field", ["source_tokens", "target_tokens"])
def test_a_budget_below_max_length_is_refused_by_name(field: str) -> None:
    budgets: dict[str, Any] = {"source_tokens": 100, "target_tokens": 100, field: 99}
    source, target = lengths(5)
    with pytest.raises(ConfigError, match=f"{field}=99") as caught:
        BatchPlan(source, target, **budgets, seed=1, max_length=100)
    assert caught.value.where == field


@pytest.mark.parametrize(
    ("field", "value"), [("source_tokens", 0), ("target_tokens", -1), ("seed", -1), ("max_length", 0)]
)
def test_numbers_out_of_range_are_refused_by_name(field: str, value: int) -> None:
    source, target = lengths(5)
    numbers: dict[str, Any] = {
        "source_tokens": 100,
        "target_tokens": 100,
        "seed": 1,
        "max_length": 50,
        field: value,
    }
    with pytest.raises(ConfigError) as caught:
        BatchPlan(source, target, **numbers)
    assert caught.value.where == field


@pytest.mark.parametrize("source", [np.array([], np.int32), np.array([60, 70], np.int32)])
def test_a_plan_without_pairs_is_refused(source: np.ndarray) -> None:
    with pytest.raises(DataError, match="no pair is left"):
        BatchPlan(source, source, 100, 100, 1, 50)


def test_the_digest_depends_on_all_that_batches_depend_on() -> None:
    source, target = lengths(20)
    other = source.copy()
    other[3] += 1
    plans = [
        BatchPlan(source, target, 100, 100, 1, 50),
        BatchPlan(other, target, 100, 100, 1, 50),
        BatchPlan(source, other, 100, 100, 1, 50),
        BatchPlan(source, target, 101, 100, 1, 50),
        BatchPlan(source, target, 100, 101, 1, 50),
        BatchPlan(source, target, 100, 100, 2, 50),
        BatchPlan(source, target, 100, 100, 1, 51),
    ]
    assert len({plan.digest for plan in plans}) == len(plans)
    again = BatchPlan(source.astype(np.int64), target.astype(np.int64), 100, 100, 1, 50)
    assert again.digest == plans[0].digest


def test_keys_sort_as_longer_then_target_then_source() -> None:
    source, target = lengths(300)
    expected = np.lexsort((source, target, np.maximum(source, target)))
    assert np.argsort(length_keys(source, target), kind="stable").tolist() == expected.tolist()


def test_cut_gives_a_pair_over_the_budget_a_run_of_its_own() -> None:
    source = np.array([2, 2, 50, 2], np.int32)
    bounds = cut(source, np.ones(4, np.int32), source_tokens=10, target_tokens=10)
    assert bounds.tolist() == [[0, 2], [2, 3], [3, 4]]


def test_cut_bounds_padding_where_lengths_are_odd() -> None:
    source = np.array([1] * 50 + [50] + [1] * 50, np.int32)
    for start, stop in cut(source, np.ones(101, np.int32), source_tokens=100, target_tokens=100):
        assert (stop - start) * source[start:stop].max() <= 150


def test_cut_fills_batches() -> None:
    ones = np.ones(100, np.int32)
    assert cut(ones, ones, source_tokens=30, target_tokens=25).tolist() == [
        [0, 24],
        [24, 48],
        [48, 72],
        [72, 96],
        [96, 100],
    ]
    assert cut(ones, ones, source_tokens=7, target_tokens=25).tolist()[:2] == [[0, 7], [7, 14]]


def test_cut_of_nothing_is_nothing() -> None:
    none = np.array([], np.int32)
    assert cut(none, none, source_tokens=1, target_tokens=1).shape == (0, 2)
