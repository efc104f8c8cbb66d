"""Forced scores."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError, DragomanError
from dragoman.search import ForcedScore, forced_scores, token_log_probabilities


def test_by_hand() -> None:
    values = [torch.tensor([-1.0, -2.0, -0.5]), torch.tensor([-3.0])]
    first, second = forced_scores(values, alpha=1.0)
    assert first == ForcedScore(-3.5, -3.5 / (8 / 6), 3)
    assert second == ForcedScore(-3.0, -3.0, 1)


def test_alpha_defaults_to_the_papers() -> None:
    (found,) = forced_scores([torch.full((7,), -0.5)])
    assert found.score == pytest.approx(-3.5 / 2**0.6, abs=1e-12)


@given(st.lists(st.floats(-30, 0, width=32), min_size=1, max_size=80), st.floats(-1, 2))
def test_sums_in_float64(values: list[float], alpha: float) -> None:
    (found,) = forced_scores([torch.tensor(values)], alpha=alpha)
    assert found.log_probability == pytest.approx(math.fsum(values), abs=1e-10)
    assert found.score == pytest.approx(math.fsum(values) / ((5 + len(values)) / 6) ** alpha, abs=1e-8)
    assert found.length == len(values)


def test_no_targets() -> None:
    assert forced_scores([]) == []


def test_bad_targets_are_refused() -> None:
    with pytest.raises(ConfigError, match="target 1"):
        forced_scores([torch.tensor([-1.0]), torch.zeros(0)])
    with pytest.raises(DragomanError, match="not a number"):
        forced_scores([torch.tensor([-1.0, math.nan])])
    with pytest.raises(DragomanError, match="above 0"):
        forced_scores([torch.tensor([-1.0, 0.25])])
    with pytest.raises(ConfigError, match="alpha"):
        forced_scores([torch.tensor([-1.0])], alpha=math.nan)


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 6), st.integers(2, 40))
def test_token_log_probabilities(seed: int, rows: int, length: int, vocab_size: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, length, vocab_size, generator=generator) * 4
    targets = torch.randint(0, vocab_size, (rows, length), generator=generator)
    found = token_log_probabilities(logits, targets)
    truth = logits.double().log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    assert torch.allclose(found, truth, atol=1e-6, rtol=0)
    assert bool((found <= 0).all())


def test_no_gradients() -> None:
    logits = torch.zeros(1, 2, 3, requires_grad=True)
    assert not token_log_probabilities(logits, torch.zeros(1, 2, dtype=torch.int64)).requires_grad
