"""The best continuations: exact, in the order of the specification, whatever the path they are found by."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman.errors import ConfigError, DragomanError
from dragoman.search.candidates import (
    CHUNK,
    DEAD,
    FEWEST_CHUNKS,
    Bans,
    Continuations,
    accumulator_type,
    best_continuations,
    checked_logits,
    log_normalizers,
)

CPU = torch.device("cpu")


def random_logits(seed: int, sentences: int, prefixes: int, vocab_size: int, levels: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (sentences, prefixes, vocab_size)
    if levels:
        return torch.randint(0, levels, shape, generator=generator).float()
    return torch.randn(shape, generator=generator) * 3


def sorted_in_full(
    logits: Tensor, prefix: Tensor, count: int, banned: list[int]
) -> list[list[tuple[float, int, int]]]:
    """The same by a sort over everything."""
    normalizers = log_normalizers(logits, logits.argmax(-1))
    values = prefix.unsqueeze(-1) + (logits.double() - normalizers.unsqueeze(-1))
    values[..., banned] = DEAD
    outcomes = []
    for sentence in values.tolist():
        entries = [
            (-value, parent, token)
            for parent, row in enumerate(sentence)
            for token, value in enumerate(row)
            if value > DEAD
        ]
        outcomes.append([(-loss, parent, token) for loss, parent, token in sorted(entries)[:count]])
    return outcomes


def assert_same(
    found: list[list[tuple[float, int, int]]], wanted: list[list[tuple[float, int, int]]]
) -> None:
    """The same continuations in the same order; values but for the rounding of a sum over the vocabulary."""
    assert [[entry[1:] for entry in row] for row in found] == [[entry[1:] for entry in row] for row in wanted]
    values = ([entry[0] for row in lists for entry in row] for lists in (found, wanted))
    assert next(values) == pytest.approx(next(values), rel=1e-6, abs=1e-6)


def as_lists(found: Continuations) -> list[list[tuple[float, int, int]]]:
    columns = (found.values_BC, found.parents_BC, found.tokens_BC)
    return [
        [entry for entry in zip(*rows, strict=True) if entry[0] > DEAD]
        for rows in zip(*(column.tolist() for column in columns), strict=True)
    ]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    vocab_size=st.sampled_from([2, 5, CHUNK - 1, CHUNK * FEWEST_CHUNKS - 1, CHUNK * FEWEST_CHUNKS, 777]),
    prefixes=st.integers(1, 4),
    count=st.integers(1, 12),
    levels=st.sampled_from([0, 1, 2, 30, 1000]),
    with_dead=st.booleans(),
)
def test_equals_a_sort_in_full(
    seed: int, vocab_size: int, prefixes: int, count: int, levels: int, with_dead: bool
) -> None:
    logits = random_logits(seed, 2, prefixes, vocab_size, levels)
    prefix = torch.round(torch.randn(2, prefixes, dtype=torch.float64).abs()) * -1
    if with_dead:
        prefix[0, -1] = DEAD
    banned = [k for k in (0, 3, 70, 500) if k < vocab_size - 1]
    bans = Bans.of(banned, vocab_size=vocab_size, device=CPU)
    found = best_continuations(logits, prefix, count=count, bans=bans)
    assert found.values_BC.shape == (2, count)
    assert_same(as_lists(found), sorted_in_full(logits, prefix, count, banned))


@pytest.mark.parametrize("vocab_size", [600, 640, 641, 703])
@pytest.mark.parametrize("levels", [0, 1, 200])
def test_most_of_the_vocabulary_banned(vocab_size: int, levels: int) -> None:
    logits = random_logits(1, 3, 2, vocab_size, levels)
    prefix = torch.tensor([[-1.0, -2.0]] * 3, dtype=torch.float64)
    banned = [k for k in range(vocab_size) if k % 97]
    bans = Bans.of(banned, vocab_size=vocab_size, device=CPU)
    found = best_continuations(logits, prefix, count=8, bans=bans)
    assert_same(as_lists(found), sorted_in_full(logits, prefix, 8, banned))


def test_equals_go_by_parent_then_token() -> None:
    logits = torch.zeros(1, 2, 5)
    prefix = torch.tensor([[-1.0, -1.0]], dtype=torch.float64)
    bans = Bans.of([0], vocab_size=5, device=CPU)
    found = best_continuations(logits, prefix, count=6, bans=bans)
    assert found.parents_BC.tolist() == [[0, 0, 0, 0, 1, 1]]
    assert found.tokens_BC.tolist() == [[1, 2, 3, 4, 1, 2]]


def test_a_higher_prefix_comes_before_a_lower_parent() -> None:
    logits = torch.zeros(1, 2, 3)
    prefix = torch.tensor([[-2.0, -1.0]], dtype=torch.float64)
    found = best_continuations(logits, prefix, count=4, bans=Bans.of([], vocab_size=3, device=CPU))
    assert found.parents_BC.tolist() == [[1, 1, 1, 0]]


def test_bans_keep_their_share_of_probability() -> None:
    logits = torch.tensor([[[3.0, 1.0, 0.0]]])
    found = best_continuations(
        logits,
        torch.zeros(1, 1, dtype=torch.float64),
        count=1,
        bans=Bans.of([0], vocab_size=3, device=CPU),
    )
    share = math.exp(1) / (math.exp(3) + math.exp(1) + 1)
    assert math.exp(float(found.values_BC)) == pytest.approx(share, abs=1e-6)


def test_the_logits_are_not_written_to() -> None:
    logits = random_logits(3, 2, 3, 700, 0)
    before = logits.clone()
    bans = Bans.of([1, 5], vocab_size=700, device=CPU)
    best_continuations(logits, torch.zeros(2, 3, dtype=torch.float64), count=6, bans=bans)
    assert torch.equal(logits, before)


def test_too_few_continuations_are_filled_up_with_dead_ones() -> None:
    found = best_continuations(
        torch.zeros(1, 1, 3),
        torch.zeros(1, 1, dtype=torch.float64),
        count=8,
        bans=Bans.of([1], vocab_size=3, device=CPU),
    )
    assert found.values_BC.isfinite().sum() == 2
    assert found.values_BC.shape == found.parents_BC.shape == found.tokens_BC.shape == (1, 8)
    assert int(found.tokens_BC.max()) < 3


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("vocab_size", [4, 800])
def test_broken_logits_are_refused(bad: float, vocab_size: int) -> None:
    logits = torch.zeros(3, 2, vocab_size)
    logits[1, 1, 2] = bad
    bans = Bans.of([], vocab_size=vocab_size, device=CPU)
    with pytest.raises(DragomanError, match="not finite") as caught:
        best_continuations(logits, torch.zeros(3, 2, dtype=torch.float64), count=4, bans=bans)
    assert "[1]" in str(caught.value)


def test_broken_logits_of_dead_prefixes_do_not_matter() -> None:
    logits = torch.zeros(1, 2, 4)
    logits[0, 1] = math.nan
    prefix = torch.tensor([[0.0, DEAD]], dtype=torch.float64)
    found = best_continuations(logits, prefix, count=3, bans=Bans.of([], vocab_size=4, device=CPU))
    assert found.parents_BC.tolist() == [[0, 0, 0]]
    assert found.values_BC.isfinite().all()


@given(st.integers(0, 1000), st.integers(1, 9), st.sampled_from([3, 100, 5000]))
def test_normalizers_are_exact_and_the_same_in_any_company(seed: int, rows: int, vocab_size: int) -> None:
    logits = random_logits(seed, rows, 1, vocab_size, 0).squeeze(1) * 5
    found = log_normalizers(logits, logits.argmax(-1))
    assert torch.allclose(found, logits.double().logsumexp(-1), atol=1e-6, rtol=0)
    assert bool((found >= logits.amax(-1)).all()), "else a log-probability would exceed 0"
    for k in range(rows):
        assert torch.equal(log_normalizers(logits[k : k + 1], logits[k : k + 1].argmax(-1))[0], found[k])


def test_bans_beyond_the_vocabulary_are_refused() -> None:
    with pytest.raises(ConfigError, match="token id 9 is beyond a vocabulary of 9"):
        Bans.of([2, 9], vocab_size=9, device=CPU)


def test_logits_of_another_shape_are_refused() -> None:
    tokens = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(ConfigError, match=r"\(2, 4, 7\)"):
        checked_logits(torch.zeros(2, 4, 7), tokens)


def test_logits_are_widened_to_float32() -> None:
    tokens = torch.zeros(1, 1, dtype=torch.int64)
    assert checked_logits(torch.zeros(1, 1, 4, dtype=torch.bfloat16), tokens).dtype == torch.float32
    assert checked_logits(torch.zeros(1, 1, 4, dtype=torch.float64), tokens).dtype == torch.float64
    assert checked_logits(torch.zeros(1, 4, 1).transpose(1, 2), tokens).is_contiguous()


def test_sums_are_in_float64_where_there_is_one() -> None:
    assert accumulator_type(CPU) == torch.float64
    assert accumulator_type(torch.device("mps")) == torch.float32
