"""The length penalty, its bounds and the length limit.

Paper: 6.1
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.search.length import Penalty, length_limits, length_penalty, penalty_table, score_bounds
from dragoman.variants.power_penalty import power_penalty

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("length", "alpha", "penalty"),
    [
        (1, 0.6, 1.0),
        (1, -3.0, 1.0),
        (7, 1.0, 2.0),
        (7, 2.0, 4.0),
        (7, -1.0, 0.5),
        (19, 0.5, 2.0),
        (50, 0.0, 1.0),
    ],
)
def test_penalty_by_hand(length: int, alpha: float, penalty: float) -> None:
    assert length_penalty(length, alpha) == pytest.approx(penalty, abs=1e-12)


def test_penalty_is_not_a_plain_power() -> None:
    assert length_penalty(4, 0.6) != pytest.approx(4**0.6, abs=0.1)


@given(st.integers(1, 300), st.floats(-2, 2))
def test_table_holds_the_same_numbers(longest: int, alpha: float) -> None:
    table = penalty_table(longest, alpha=alpha, device=CPU)
    assert table.dtype == torch.float64
    assert table.tolist() == [length_penalty(n, alpha) for n in range(longest + 1)]


@given(
    st.floats(-60, 0),
    st.floats(0, 20),
    st.integers(1, 20),
    st.integers(1, 20),
    st.sampled_from([-1.0, -0.3, 0.0, 0.6, 1.0, 2.0]),
    st.sampled_from([length_penalty, power_penalty]),
)
def test_no_continuation_exceeds_the_bound(
    log_probability: float, loss: float, length: int, more: int, alpha: float, penalty: Penalty
) -> None:
    limit = length + 20
    bound = score_bounds(
        torch.tensor([log_probability], dtype=torch.float64),
        length=length,
        limits=torch.tensor([limit]),
        penalties=penalty_table(limit + 1, alpha=alpha, device=CPU, penalty=penalty),
        alpha=alpha,
    )
    score = (log_probability - loss) / penalty(length + more, alpha)
    assert score <= float(bound) + 1e-12


@pytest.mark.parametrize(("alpha", "reached_at"), [(0.6, 9), (0.0, 5), (-0.6, 3)])
def test_the_bound_is_tight(alpha: float, reached_at: int) -> None:
    """Some length reaches it with no further loss: a looser bound would run steps for nothing."""
    bound = score_bounds(
        torch.tensor([-2.0], dtype=torch.float64),
        length=2,
        limits=torch.tensor([9]),
        penalties=penalty_table(10, alpha=alpha, device=CPU),
        alpha=alpha,
    )
    assert float(bound) == pytest.approx(-2.0 / length_penalty(reached_at, alpha), abs=1e-12)


def test_bound_of_no_prefix() -> None:
    bound = score_bounds(
        torch.tensor([-math.inf]),
        length=1,
        limits=torch.tensor([3]),
        penalties=penalty_table(4, alpha=0.6, device=CPU, dtype=torch.float32),
        alpha=0.6,
    )
    assert float(bound) == -math.inf


def test_limits_count_from_the_source() -> None:
    assert length_limits([1, 7, 30], max_extra=50, min_length=1) == [51, 57, 80]
    assert length_limits([4], max_extra=0, min_length=4) == [4]
    assert length_limits([], max_extra=50, min_length=1) == []


def test_a_limit_of_another_rule() -> None:
    assert length_limits([1, 7], max_extra=50, min_length=1, limit=lambda S: 3 * S) == [3, 21]
    with pytest.raises(ConfigError, match="min_length 4 is above the length limit 3"):
        length_limits([7, 1], max_extra=50, min_length=4, limit=lambda S: 3 * S)


@pytest.mark.parametrize("length", [0, -3])
def test_blank_sources_are_refused(length: int) -> None:
    with pytest.raises(ConfigError, match="sentence 1"):
        length_limits([3, length], max_extra=50, min_length=1)


def test_a_minimum_above_a_limit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"min_length 60 .* 5 \+ 50"):
        length_limits([20, 5], max_extra=50, min_length=60)
