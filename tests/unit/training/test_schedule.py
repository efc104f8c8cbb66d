"""Eq. 3, by hand."""

from __future__ import annotations

import itertools

import pytest

from dragoman.training.schedule import learning_rate

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
