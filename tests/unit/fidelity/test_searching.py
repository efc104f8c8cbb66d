"""The rules of search are told from others by what searches do.

Paper: 6.1
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import native
from dragoman.fidelity import searching as probes
from dragoman.fidelity.small import small_model
from dragoman.model.config import ModelShape
from dragoman.model.parts import PAPER
from dragoman.model.transformer import Transformer
from dragoman.recipe import SearchSection
from dragoman.search import beam, length, task
from dragoman.search.beam import search_of
from dragoman.search.options import SearchOptions
from dragoman.variants.power_penalty import power_penalty
from dragoman.variants.search_rules import SearchRules

EARLY = "as soon as no live prefix can win"


@pytest.fixture(scope="module")
def model() -> Transformer:
    return small_model(ModelShape(d_model=64, h=4), PAPER, P_drop=0.0)


def test_the_papers_rules(model):
    assert probes.length_penalty(model) == "((5 + n) / 6)^alpha"
    assert probes.end_of_search() == EARLY


@pytest.mark.parametrize(
    ("penalty", "said"),
    [
        (lambda n, alpha: float(n**alpha), "n^alpha"),
        (lambda n, alpha: 1.0, "none"),
        (lambda n, alpha: ((5 + n) / 6) ** (2 * alpha), "another"),
        (lambda n, alpha: (5 + n) ** alpha / 6, "another"),
        (lambda n, alpha: ((5 + n - 1) / 6) ** alpha, "another"),  # the end mark not counted
    ],
    ids=["n^alpha", "none", "other alpha", "other form", "n - 1"],
)
def test_other_penalties(monkeypatch, model, penalty, said):
    monkeypatch.setattr(length, "length_penalty", penalty)
    assert probes.length_penalty(model) == said


def by_length(search: Any) -> Any:
    """The search with the penalty n^alpha, whatever it is asked for."""

    def searched(*given: Any) -> Any:
        *rest, task = given
        options = replace(task.options, penalty=lambda n, alpha: float(n**alpha))
        return search(*rest, replace(task, options=options))

    return searched


@pytest.mark.parametrize(
    ("module", "name"), [(beam, "greedy_search"), (beam, "_beam_search"), (probes, "search_all")]
)
def test_one_search_among_many_that_is_another(monkeypatch, model, module, name):
    if name == "search_all" and native.kernels() is None:
        pytest.skip("no kernels here")
    monkeypatch.setattr(module, name, by_length(getattr(module, name)))
    assert set(probes.length_penalty(model).split(" / ")) >= {"n^alpha"}
    assert probes.length_penalty(model) != "n^alpha"


def test_a_search_that_never_ends_early(monkeypatch):
    monkeypatch.setattr(beam, "score_bounds", lambda log_p, **_rest: log_p * 0.0)
    assert probes.end_of_search() == "after 55 steps"


@settings(max_examples=20)
@given(
    beam_size=st.sampled_from([1, 2, 4, 5, 21]),
    alpha=st.sampled_from([-1.0, 0.0, 0.3, 0.6, 1.3, 10.0]),
    max_extra=st.sampled_from([0, 3, 50, 300]),
)
def test_the_numbers_are_those_of_the_recipe(beam_size, alpha, max_extra):
    found = probes.search_measured(SearchSection(beam_size=beam_size, alpha=alpha, max_extra=max_extra))
    assert (found.beam_size, found.max_extra) == (beam_size, max_extra)
    assert found.alpha == pytest.approx(alpha, abs=1e-9)


def test_a_limit_of_another_length(monkeypatch):
    def limits(source_lengths: Any, **_rest: Any) -> list[int]:
        return [2 * S + 10 for S in source_lengths]

    monkeypatch.setattr(task, "length_limits", limits)
    assert probes.search_measured(SearchSection()).max_extra == "2 S + 10"


@pytest.mark.parametrize(
    ("rules", "penalty", "said"),
    [
        (SearchRules(penalty=power_penalty), "n^alpha", 50),
        (SearchRules(limit=lambda S: 200), "((5 + n) / 6)^alpha", "200 in all"),
        (SearchRules(penalty=power_penalty, limit=lambda S: 3 * S), "n^alpha", "3 S"),
    ],
    ids=["penalty", "limit", "both"],
)
def test_rules_that_were_asked_for_are_measured(model, rules, penalty, said):
    assert probes.length_penalty(model, rules) == penalty
    assert probes.end_of_search(rules) == EARLY
    found = probes.search_measured(SearchSection(alpha=0.7), rules, penalty)
    assert found.alpha == pytest.approx(0.7, abs=1e-9)
    assert (found.beam_size, found.max_extra) == (4, said)


def test_a_search_that_does_not_keep_to_its_limit(monkeypatch):
    def one_more(self: Any, options: SearchOptions) -> Any:
        return self.limits_B < self.length

    monkeypatch.setattr(beam._State, "is_done", one_more)
    assert probes.search_measured(SearchSection()).max_extra == 51


def test_the_step_function_is_a_distribution_and_no_two_tokens_are_alike():
    step = probes.Steady(p_end=0.3, vocab_size=7)
    probabilities = step.logits.exp()
    assert float(probabilities.sum()) == pytest.approx(1.0, abs=1e-4)
    assert len(set(probabilities.tolist())) == 7
    [[best]] = search_of(step, probes._task([1], SearchOptions(beam_size=4, alpha=0.0, max_extra=3)))
    assert best.tokens == (probes.EOS,)
    assert best.log_probability == pytest.approx(math.log(0.3), abs=1e-4)
