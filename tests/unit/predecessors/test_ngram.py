"""N-grams: probabilities sum to 1, the formula written out by plain counting, what is between, texts too small."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.predecessors.ngram import SMALL, NGrams

V, BOS, EOS = 8, 2, 1

units_of_tokens = st.lists(
    st.lists(st.integers(3, V - 1), max_size=6).map(lambda tokens: [*tokens, EOS]), min_size=1, max_size=30
)


def text(count: int, *, seed: int = 1) -> list[list[int]]:
    """Units in which what comes next depends on the two tokens before."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        unit = [draw.randrange(3, V), draw.randrange(3, V)]
        while len(unit) < 12 and draw.random() < 0.85:
            likely = 3 + (2 * unit[-1] + unit[-2]) % (V - 3)
            unit.append(likely if draw.random() < 0.8 else draw.randrange(3, V))
        made.append([*unit, EOS])
    return made


class Plainly:
    """The model's formula, every count being taken anew from the whole text."""

    def __init__(self, units: Sequence[Sequence[int]], order: int) -> None:
        self.order = order
        tokens = [(BOS, *unit) for unit in units]
        self.grams = {
            k: [row[end - k : end] for row in tokens for end in range(max(k, 2), len(row) + 1)]
            for k in range(1, order + 1)
        }

    def count(self, gram: tuple[int, ...]) -> int:
        if len(gram) == self.order or gram[0] == BOS:
            return self.grams[len(gram)].count(gram)
        return len({longer for longer in self.grams[len(gram) + 1] if longer[1:] == gram})

    def discount(self, length: int, count: int) -> float:
        counts = [self.count(gram) for gram in set(self.grams[length])]
        n = {k: counts.count(k) for k in (1, 2, 3, 4)}
        k = min(count, 3)
        if count == 0:
            return 0.0
        if 0 in (n[1], n[2]) or n[k] == 0:
            return SMALL[k - 1]
        Y = n[1] / (n[1] + 2 * n[2])
        found = k - (k + 1) * Y * n[k + 1] / n[k]
        return found if 0 <= found <= k else SMALL[k - 1]

    def p(self, token: int, history: tuple[int, ...]) -> float:
        shorter = 1 / V if not history else self.p(token, history[1:])
        counts = [self.count((*history, other)) for other in range(V)]
        if not sum(counts):
            return shorter
        length = len(history) + 1
        taken = [self.discount(length, count) for count in counts]
        return (counts[token] - taken[token]) / sum(counts) + sum(taken) / sum(counts) * shorter


@settings(max_examples=60)
@given(units=units_of_tokens, order=st.integers(1, 4), history=st.lists(st.integers(3, V - 1), max_size=5))
def test_probabilities_sum_to_one_after_any_history(units, order, history):
    model = NGrams(units, order=order, vocab_size=V)
    p = model.distribution([BOS, *history])
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    assert (p > 0).all()
    for token in range(V):
        assert model.probability([BOS, *history], token) == pytest.approx(p[token], abs=1e-12)


@settings(max_examples=25)
@given(units=units_of_tokens, order=st.integers(1, 3), data=st.data())
def test_the_formula_written_out(units, order, data):
    model, plain = NGrams(units, order=order, vocab_size=V), Plainly(units, order)
    unit = data.draw(st.sampled_from(units))
    end = data.draw(st.integers(0, len(unit) - 1))
    history = (BOS, *unit[:end])
    short = history[max(0, len(history) - order + 1) :]
    for token in (unit[end], data.draw(st.integers(0, V - 1))):
        assert model.probability(history, token) == pytest.approx(plain.p(token, short), rel=1e-9)


def test_discounts_are_those_of_counts_of_counts():
    """Of orders with counts of all four sizes none is taken from the table for small texts."""
    units = text(300)
    model, plain = NGrams(units, order=3, vocab_size=V), Plainly(units, 3)
    assert plain.discount(3, 1) not in SMALL
    for history in ((BOS,), (BOS, 5), (5, 4), (7, 3)):
        for token in range(1, V):
            assert model.probability(history, token) == pytest.approx(plain.p(token, history), rel=1e-9)


@settings(max_examples=30)
@given(units=units_of_tokens, order=st.integers(1, 4), data=st.data())
def test_what_is_between_is_the_units_probability_with_each_token(units, order, data):
    model = NGrams(units, order=order, vocab_size=V)
    unit = [*data.draw(st.lists(st.integers(3, V - 1), min_size=1, max_size=6)), EOS]
    place = data.draw(st.integers(0, len(unit) - 1))
    whole = [
        math.exp(model.log_probability([*unit[:place], token, *unit[place + 1 :]])) for token in range(V)
    ]
    np.testing.assert_allclose(model.between(unit, place), np.array(whole) / sum(whole), rtol=1e-9)


def test_a_longer_history_helps_and_other_text_is_less_probable():
    train, other = text(800, seed=1), text(100, seed=2)
    found = [
        sum(NGrams(train, order=order, vocab_size=V).log_probability(unit) for unit in other)
        for order in (1, 2, 3)
    ]
    assert found[0] < found[1] < found[2]
    shuffled = [[*unit[-2::-1], EOS] for unit in other]
    model = NGrams(train, order=3, vocab_size=V)
    assert sum(map(model.log_probability, shuffled)) < found[2]


def test_all_units_together_are_no_more_than_certain():
    """Over every unit of up to three tokens, and what is left for longer ones."""
    model = NGrams(text(20), order=2, vocab_size=V)

    def ended(unit: list[int], depth: int) -> float:
        total = math.exp(model.log_probability([*unit, EOS]))
        return total + (sum(ended([*unit, t], depth - 1) for t in range(V) if t != EOS) if depth else 0.0)

    assert 0.05 < ended([], 2) < 1.0


@pytest.mark.parametrize(("units", "order"), [([[EOS]], 0), ([], 2), ([], 1)])
def test_what_cannot_be_counted_is_refused(units, order):
    with pytest.raises(ConfigError) as caught:
        NGrams(units, order=order, vocab_size=V)
    assert caught.value.cure
