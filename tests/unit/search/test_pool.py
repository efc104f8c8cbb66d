"""The finished pool."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.search.pool import DEAD, Pool, picked
from dragoman.search.step import Hypothesis

CPU = torch.device("cpu")


def empty(places: int = 2, sentences: int = 1) -> Pool:
    return Pool.empty(sentences, places, device=CPU, dtype=torch.float64)


def offered(pool: Pool, tokens: list[list[int]], values: list[float], penalty: float = 1.0) -> Pool:
    return pool.add(torch.tensor([tokens]), torch.tensor([values], dtype=torch.float64), penalty=penalty)


def test_an_empty_pool_has_no_hypotheses() -> None:
    assert empty(sentences=2).hypotheses(2) == [[], []]
    assert offered(empty(), [[7], [8]], [DEAD, DEAD]).hypotheses(2) == [[]]


def test_keeps_the_best_by_score_of_any_length() -> None:
    pool = offered(empty(), [[1], [2]], [-1.0, DEAD])
    pool = offered(pool, [[3, 1], [4, 1]], [-1.5, -8.0], penalty=2.0)
    pool = offered(pool, [[5, 6, 1], [5, 7, 1]], [-6.0, -7.0], penalty=4.0)
    assert pool.hypotheses(2) == [
        [
            Hypothesis((3, 1), -1.5, -0.75, finished=True),
            Hypothesis((1,), -1.0, -1.0, finished=True),
        ]
    ]
    assert len(pool.hypotheses(1)[0]) == 1


def test_equal_scores_the_earlier_first() -> None:
    pool = offered(empty(3), [[1], [2]], [-1.0, -1.0])
    pool = offered(pool, [[3, 1], [4, 1]], [-1.0, -1.0])
    assert [each.tokens for each in pool.hypotheses(3)[0]] == [(1,), (2,), (3, 1)]


@given(st.lists(st.lists(st.integers(-9, 0), min_size=3, max_size=3), min_size=1, max_size=6))
def test_equals_a_stable_sort_of_all_that_was_offered(steps: list[list[int]]) -> None:
    pool, everything = empty(4), []
    for step, values in enumerate(steps):
        tokens = [[column] * step + [column + 10] for column in range(3)]
        order = sorted(range(3), key=lambda column: -values[column])
        pool = offered(
            pool, [tokens[k] for k in order], [float(values[k]) for k in order], penalty=step + 1.0
        )
        everything += [(tuple(tokens[k]), values[k] / (step + 1.0)) for k in order]
    best = sorted(everything, key=lambda entry: -entry[1])[:4]
    found = pool.hypotheses(4)[0]
    assert [each.tokens for each in found] == [tokens for tokens, _ in best]
    assert [each.score for each in found] == pytest.approx([score for _, score in best])


def test_keep_takes_the_right_sentences() -> None:
    pool = empty(1, sentences=3).add(
        torch.tensor([[[4]], [[5]], [[6]]]),
        torch.tensor([[-1.0], [-2.0], [-3.0]], dtype=torch.float64),
        penalty=1.0,
    )
    kept = pool.keep(torch.tensor([0, 2])).hypotheses(1)
    assert [each.tokens for (each,) in kept] == [(4,), (6,)]


def test_picked() -> None:
    tokens = torch.arange(12).view(2, 3, 2)
    index = torch.tensor([[2, 0, 2, 1], [1, 1, 0, 0]])
    expected = torch.stack([tokens[b][index[b]] for b in range(2)])
    assert torch.equal(picked(tokens, index), expected)
    assert picked(tokens[:, :, :0], index).shape == (2, 4, 0)
