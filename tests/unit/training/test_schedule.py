"""Eq. 3, by hand; and the cooldown that short runs may end in.

Paper: 5.3 (Eq. 3)
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.training.schedule import COOLED_DOWN, Cooldown, cooldown_due, learning_rate, share_done

# step, d_model, warmup_steps -> d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), by a pocket calculator
TABLE = [
    (1, 512, 4000, 1.746928e-7),
    (100, 512, 4000, 1.746928e-5),
    (2000, 512, 4000, 3.493856e-4),
    (4000, 512, 4000, 6.987712e-4),
    (16000, 512, 4000, 3.493856e-4),
    (100_000, 512, 4000, 1.397542e-4),
    (4000, 1024, 4000, 4.941059e-4),
    (1, 16, 1, 0.25),
    (4, 16, 1, 0.125),
    (25, 100, 100, 2.5e-3),
]


@pytest.mark.parametrize(("step", "d_model", "warmup_steps", "rate"), TABLE)
def test_a_hand_table(step, d_model, warmup_steps, rate):
    assert learning_rate(step, d_model=d_model, warmup_steps=warmup_steps) == pytest.approx(rate, rel=1e-6)


@pytest.mark.parametrize("warmup_steps", [1, 2, 10, 400, 4000])
def test_it_rises_evenly_to_its_peak_at_warmup_steps_and_then_falls(warmup_steps):
    rates = [learning_rate(s, d_model=64, warmup_steps=warmup_steps) for s in range(1, 2 * warmup_steps + 2)]
    peak = max(range(len(rates)), key=rates.__getitem__) + 1
    assert peak == warmup_steps
    assert rates[peak - 1] == pytest.approx((64 * warmup_steps) ** -0.5, rel=1e-12)
    rising = rates[:warmup_steps]
    assert rising == pytest.approx([rates[0] * step for step in range(1, warmup_steps + 1)], rel=1e-12)
    falling = rates[warmup_steps - 1 :]
    assert all(later < earlier for earlier, later in itertools.pairwise(falling))


def test_the_factor_scales_all_of_it():
    for step in (1, 50, 5000):
        plain = learning_rate(step, d_model=32, warmup_steps=50)
        assert learning_rate(step, d_model=32, warmup_steps=50, factor=2.5) == pytest.approx(2.5 * plain)


@pytest.mark.parametrize("step", [0, -1])
def test_steps_are_counted_from_one(step):
    with pytest.raises(AssertionError, match="from 1"):
        learning_rate(step, d_model=32, warmup_steps=50)


@pytest.mark.parametrize(
    ("step", "factor"), [(1, 1.0), (100, 1.0), (110, 0.905), (150, 0.525), (200, 0.05), (999, 0.05)]
)
def test_in_a_cooldown_the_rate_falls_linearly_to_a_twentieth_and_stays(step, factor):
    plain = learning_rate(step, d_model=32, warmup_steps=50)
    cooled = learning_rate(step, d_model=32, warmup_steps=50, cooldown=Cooldown(begin=100, steps=100))
    assert cooled == pytest.approx(factor * plain, rel=1e-12)


def due(share, step, seconds, max_steps=1000, max_minutes=None):
    return cooldown_due(share, step, seconds, max_steps=max_steps, max_minutes=max_minutes)


def test_a_cooldown_begins_with_the_last_share_of_the_updates():
    assert due(0.2, 799, 50.0) is None
    assert due(0.2, 800, 50.0) == Cooldown(begin=800, steps=200)
    assert due(0.2, 850, 50.0) == Cooldown(begin=850, steps=150)


def test_or_of_the_minutes_whichever_end_is_nearer():
    assert due(0.25, 300, 449.0, max_minutes=10.0) is None
    # 300 updates in 450 seconds, so 100 in the 150 left
    assert due(0.25, 300, 450.0, max_minutes=10.0) == Cooldown(begin=300, steps=100)
    # the last update is nearer than the last minute
    assert due(0.25, 750, 100.0, max_minutes=10.0) == Cooldown(begin=750, steps=250)


def test_there_is_none_unless_asked_for_nor_before_the_first_update():
    assert due(0.0, 1000, 1e9, max_minutes=1.0) is None
    assert due(0.9, 0, 59.0, max_minutes=1.0) is None


@given(
    share=st.floats(0.01, 0.99),
    step=st.integers(1, 1000),
    seconds=st.floats(0.0, 700.0),
    minutes=st.one_of(st.none(), st.just(10.0)),
)
def test_a_cooldown_is_planned_exactly_when_so_much_is_over_and_ends_with_the_updates(
    share, step, seconds, minutes
):
    planned = due(share, step, seconds, max_minutes=minutes)
    over = share_done(step, seconds, max_steps=1000, max_minutes=minutes)
    assert (planned is None) == (over < 1.0 - share)
    if planned is not None:
        assert planned.begin == step
        assert 1 <= planned.steps <= max(1, 1000 - step)
        assert planned.factor(step) == 1.0
        assert planned.factor(step + planned.steps) == pytest.approx(COOLED_DOWN)
