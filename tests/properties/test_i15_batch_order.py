"""I14, I15: the order of data is that of (seed, epoch), every pair once; any cursor goes on exactly.

Paper: 5.1
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.batches import Batch, BatchLoader, BatchPlan, Cursor
from dragoman.data.manifest import Manifest, file_records, write_manifest
from dragoman.data.plan import PADDED_BUDGETS
from dragoman.data.shards import PairShards, ShardWriter
from dragoman.text.subwords import Subwords

LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=80)
BUDGETS = st.tuples(st.integers(40, 200), st.integers(40, 200))
SEEDS = st.integers(0, 2**32)
EPOCHS = st.integers(0, 2**31)


def plan_of(lengths: list[tuple[int, int]], budgets: tuple[int, int], seed: int) -> BatchPlan:
    source, target = np.array(lengths, np.int32).T
    return BatchPlan(source, target, budgets[0], budgets[1], seed, max_length=40)  # some pairs are longer


@contextmanager
def shards_of(lengths: list[tuple[int, int]]) -> Iterator[PairShards]:
    """Shards of pairs of these lengths, EOS counted, with ids that tell pairs and sides apart."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ShardWriter(
            folder, "train", source_vocabulary_size=300, target_vocabulary_size=70_000
        ) as writer:
            sources = [[4 + k] * (length - 1) for k, (length, _) in enumerate(lengths)]
            targets = [[69_000 + k] * (length - 1) for k, (_, length) in enumerate(lengths)]
            writer.append(sources, targets, range(1, len(lengths) + 1))
        manifest = Manifest(
            source_language=None,
            target_language=None,
            splits={"train": writer.close()},
            vocabularies={},
            left_out=(),
            notes=(),
            origin=None,
            files=file_records(folder),
        )
        write_manifest(folder, manifest)
        yield PairShards.open(folder, "train")


def is_same(one: tuple[Batch, Cursor], other: tuple[Batch, Cursor]) -> bool:
    a, b = one[0], other[0]
    return (
        one[1] == other[1]
        and torch.equal(a.source_ids, b.source_ids)
        and torch.equal(a.target_input_ids, b.target_input_ids)
        and torch.equal(a.target_output_ids, b.target_output_ids)
        and torch.equal(a.pair_indices, b.pair_indices)
        and (a.source_tokens, a.target_tokens) == (b.source_tokens, b.target_tokens)
    )


def has_any(lengths: list[tuple[int, int]]) -> bool:
    return any(max(pair) <= 40 for pair in lengths)


@settings(max_examples=150, deadline=None)
@given(lengths=LENGTHS.filter(has_any), budgets=BUDGETS, seed=SEEDS, epoch=EPOCHS)
def test_every_pair_once_within_every_budget(
    lengths: list[tuple[int, int]], budgets: tuple[int, int], seed: int, epoch: int
) -> None:
    plan = plan_of(lengths, budgets, seed)
    batches = plan.epoch(epoch)
    expected = [k for k, pair in enumerate(lengths) if max(pair) <= 40]
    assert sorted(np.concatenate(batches).tolist()) == expected
    assert sorted([*expected, *plan.left_out.tolist()]) == list(range(len(lengths)))
    assert len(batches) == len(plan)
    for pairs in batches:
        for sides, budget in (
            (plan.source_lengths, plan.source_tokens),
            (plan.target_lengths, plan.target_tokens),
        ):
            assert 0 < sides[pairs].sum() <= budget
            assert len(pairs) * sides[pairs].max() <= PADDED_BUDGETS * budget


@settings(max_examples=60, deadline=None)
@given(lengths=LENGTHS.filter(has_any), budgets=BUDGETS, seed=SEEDS, epoch=EPOCHS)
def test_the_same_seed_and_epoch_give_the_same_order(
    lengths: list[tuple[int, int]], budgets: tuple[int, int], seed: int, epoch: int
) -> None:
    one, other = plan_of(lengths, budgets, seed), plan_of(lengths, budgets, seed)
    other.epoch(epoch + 1)
    assert [p.tolist() for p in one.epoch(epoch)] == [p.tolist() for p in other.epoch(epoch)]
    assert one.digest == other.digest


@settings(max_examples=30, deadline=None)
@given(data=st.data(), lengths=LENGTHS.filter(has_any), budgets=BUDGETS, seed=SEEDS)
def test_stopping_anywhere_twice_and_going_on_is_the_uninterrupted_run(
    data: st.DataObject, lengths: list[tuple[int, int]], budgets: tuple[int, int], seed: int
) -> None:
    plan = plan_of(lengths, budgets, seed)
    steps = 2 * len(plan) + 2
    first, second = sorted(data.draw(st.tuples(st.integers(0, steps), st.integers(0, steps))))
    with shards_of(lengths) as shards:
        whole = list(islice(BatchLoader(shards, plan, prefetch=0).batches(), steps))
        resumed: list[tuple[Batch, Cursor]] = []
        for stop, prefetch in ((first, 4), (second, 0), (steps, 1)):
            start = resumed[-1][1] if resumed else Cursor()
            fresh = BatchLoader(shards, plan_of(lengths, budgets, seed), prefetch=prefetch)
            resumed += islice(fresh.batches(start), stop - len(resumed))
    assert len(resumed) == len(whole)
    assert all(map(is_same, resumed, whole))


@settings(max_examples=30, deadline=None)
@given(lengths=LENGTHS.filter(has_any), budgets=BUDGETS, seed=SEEDS, prefetch=st.integers(1, 6))
def test_prefetching_changes_nothing(
    lengths: list[tuple[int, int]], budgets: tuple[int, int], seed: int, prefetch: int
) -> None:
    plan = plan_of(lengths, budgets, seed)
    with shards_of(lengths) as shards:
        plain = BatchLoader(shards, plan, prefetch=0).batches()
        ahead = BatchLoader(shards, plan, prefetch=prefetch).batches()
        assert all(is_same(next(ahead), next(plain)) for _ in range(len(plan) + 3))
        ahead.close()  # type: ignore[attr-defined]


@settings(max_examples=40, deadline=None)
@given(lengths=LENGTHS.filter(has_any), budgets=BUDGETS, seed=SEEDS)
def test_rows_hold_their_pair_shifted_and_padded(
    lengths: list[tuple[int, int]], budgets: tuple[int, int], seed: int
) -> None:
    plan = plan_of(lengths, budgets, seed)
    with shards_of(lengths) as shards:
        for batch, _ in islice(BatchLoader(shards, plan, prefetch=0).batches(), len(plan)):
            for row, k in enumerate(batch.pair_indices.tolist()):
                source_length, target_length = lengths[k]
                source = [4 + k] * (source_length - 1) + [Subwords.EOS_ID]
                words = [69_000 + k] * (target_length - 1)
                source_padding = [Subwords.PAD_ID] * (batch.source_ids.shape[1] - source_length)
                target_padding = [Subwords.PAD_ID] * (batch.target_input_ids.shape[1] - target_length)
                assert batch.source_ids[row].tolist() == source + source_padding
                assert batch.target_input_ids[row].tolist() == [Subwords.BOS_ID, *words, *target_padding]
                assert batch.target_output_ids[row].tolist() == [*words, Subwords.EOS_ID, *target_padding]
