"""I26: lengths and bans hold for every search, and options that cannot be kept are refused.

Paper: 6.1
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_search import BOS, EOS, Drawn, TableStep, problems

from dragoman.errors import ConfigError
from dragoman.search import Hypothesis, SamplingOptions, SearchOptions, beam_search, sample


def check(hypothesis: Hypothesis, drawn: Drawn) -> None:
    tokens = hypothesis.tokens
    assert drawn.min_length <= len(tokens) <= drawn.limit
    assert not set(tokens) & set(drawn.bans)
    assert EOS not in tokens[:-1]
    assert hypothesis.finished == (tokens[-1] == EOS)


@given(problems(most_tokens=7, longest=9, with_ties=True), st.integers(1, 6))
def test_beam_search_keeps_them(drawn: Drawn, beam: int) -> None:
    step = TableStep([drawn.table])
    options = SearchOptions(
        beam_size=beam,
        alpha=drawn.alpha,
        n_best=beam,
        min_length=drawn.min_length,
        max_extra=0,
        penalty=drawn.penalty,
    )
    (found,) = beam_search(
        step,
        source_lengths=[drawn.limit],
        options=options,
        bos_id=BOS,
        eos_id=EOS,
        forbidden_ids=drawn.bans,
    )
    assert found
    assert len(step.shapes) <= drawn.limit
    for hypothesis in found:
        check(hypothesis, drawn)


@given(problems(most_tokens=7, longest=9, with_ties=True), st.integers(0, 999), st.integers(1, 3))
def test_sampling_keeps_them(drawn: Drawn, seed: int, samples: int) -> None:
    step = TableStep([drawn.table])
    options = SamplingOptions(
        seed=seed,
        samples=samples,
        top_k=seed % 3,
        min_length=drawn.min_length,
        limit=lambda S: 2 * S - drawn.limit,
        penalty=drawn.penalty,
    )
    (found,) = sample(
        step,
        source_lengths=[drawn.limit],
        options=options,
        bos_id=BOS,
        eos_id=EOS,
        forbidden_ids=drawn.bans,
    )
    assert len(found) == samples
    assert len(step.shapes) <= drawn.limit
    for hypothesis in found:
        check(hypothesis, drawn)


@given(problems(), st.integers(1, 4), st.integers(1, 5))
def test_a_minimum_above_the_limit_is_refused(drawn: Drawn, beam: int, excess: int) -> None:
    step = TableStep([drawn.table, drawn.table])
    options = SearchOptions(beam_size=beam, min_length=drawn.limit + excess, max_extra=0)
    lengths = [drawn.limit + excess, drawn.limit]
    with pytest.raises(ConfigError, match="min_length") as caught:
        beam_search(step, source_lengths=lengths, options=options, bos_id=BOS, eos_id=EOS)
    assert "sentence 1" in str(caught.value)
    assert not step.shapes, "refused before any work"
