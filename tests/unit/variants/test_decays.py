"""Falls of the rate after its warm-up, beside the schedules of others.

Paper: 5.3 (Eq. 3)
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR

from dragoman.errors import ConfigError
from dragoman.recipes.named import tiny
from dragoman.training.schedule import Decay, learning_rate
from dragoman.variants.cosine_decay import cosine
from dragoman.variants.linear_decay import linear

FALLS = {"linear_decay": linear, "cosine_decay": cosine}
WARMUP, LAST, D_MODEL = 20, 100, 64


def rates(share, warmup=WARMUP, last=LAST) -> list[float]:
    return [
        learning_rate(step, d_model=D_MODEL, warmup_steps=warmup, decay=Decay(share, last))
        for step in range(1, last + 1)
    ]


@pytest.mark.parametrize("to", [0.0, 0.1])
@pytest.mark.parametrize("name", FALLS)
def test_it_is_pytorchs_after_the_warm_up(name, to):
    highest, updates = (D_MODEL * WARMUP) ** -0.5, LAST + 1 - WARMUP
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=highest)
    schedule = (
        LinearLR(optimizer, start_factor=1.0, end_factor=to, total_iters=updates)
        if name == "linear_decay"
        else CosineAnnealingLR(optimizer, T_max=updates, eta_min=to * highest)
    )
    wanted = []
    for _ in range(WARMUP, LAST + 1):
        wanted.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates(lambda done: FALLS[name](done, to))[WARMUP - 1 :] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("name", FALLS)
@given(to=st.floats(0.0, 0.9), warmup=st.integers(1, 50), more=st.integers(1, 500))
def test_it_rises_as_the_papers_and_falls_to_its_end_moving_weights_to_the_last(name, to, warmup, more):
    found = rates(lambda done: FALLS[name](done, to), warmup, warmup + more)
    rising = [learning_rate(step, d_model=D_MODEL, warmup_steps=warmup) for step in range(1, warmup + 1)]
    assert found[:warmup] == rising
    assert all(later <= before for before, later in zip(found[warmup - 1 :], found[warmup:], strict=False))
    assert found[-1] >= to * found[warmup - 1]
    assert found[-1] > 0.0
    assert FALLS[name](0.0, to) == pytest.approx(1.0)
    assert FALLS[name](1.0, to) == pytest.approx(to, abs=1e-12)


def test_half_way():
    assert linear(0.5, 0.0) == cosine(0.5, 0.0) == pytest.approx(0.5)
    assert cosine(0.25, 0.0) == pytest.approx(0.5 + 0.25 * math.sqrt(2))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("optimizer.cooldown=0.2",), "optimizer.cooldown 0.2 says already how the rate ends"),
        (("training.max_minutes=10.0",), "training.max_minutes 10 may end the run before it"),
        (("training.max_steps=1000",), "a warm-up of 1000 updates leaves none of 1000"),
        (("departures.training=linear_decay,cosine_decay",), "both say how the rate falls"),
    ],
)
def test_what_it_cannot_be_had_with(changes, said):
    with pytest.raises(ConfigError, match=said):
        tiny().with_changes(["departures.training=linear_decay", *changes])
