"""I23: a beam that is wide enough returns what enumeration finds best, under every option.

Paper: 6.1
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy_search import BOS, EOS, PENALTIES, SMALL, Drawn, TableStep, Truth, enumerated, problems

from dragoman.search import Hypothesis, SearchOptions, beam_search
from dragoman.search.length import Penalty


def wide_search(drawn: Drawn, n_best: int) -> list[Hypothesis]:
    """Beam search with room for every live prefix."""
    room = max(2, n_best, (drawn.vocab_size - 1 - len(drawn.bans)) ** drawn.limit)
    options = SearchOptions(
        beam_size=room,
        alpha=drawn.alpha,
        n_best=n_best,
        min_length=drawn.min_length,
        max_extra=0,
        penalty=drawn.penalty,
    )
    return beam_search(
        TableStep([drawn.table]),
        source_lengths=[drawn.limit],
        options=options,
        bos_id=BOS,
        eos_id=EOS,
        forbidden_ids=drawn.bans,
    )[0]


def truth_of(drawn: Drawn) -> list[Truth]:
    return enumerated(
        drawn.table,
        limit=drawn.limit,
        alpha=drawn.alpha,
        min_length=drawn.min_length,
        bans=drawn.bans,
        penalty=drawn.penalty,
    )


@given(problems(), st.integers(1, 12))
def test_returns_the_enumerated_best(drawn: Drawn, n_best: int) -> None:
    truth = truth_of(drawn)[:n_best]
    found = wide_search(drawn, n_best)
    assert len(found) == len(truth)
    for hypothesis, best in zip(found, truth, strict=True):
        assert hypothesis.score == pytest.approx(best.score, abs=1e-5)
        assert hypothesis.finished == best.finished
    gap = truth[0].score - truth[1].score if len(truth) > 1 else 1.0
    if gap > 1e-9 or truth[0].finished != truth[-1].finished:
        assert found[0].tokens == truth[0].tokens


@given(problems(with_ties=True), st.integers(1, 12))
def test_equals_everywhere(drawn: Drawn, n_best: int) -> None:
    truth = truth_of(drawn)
    found = wide_search(drawn, n_best)
    scores = [each.score for each in truth[:n_best]]
    assert [each.score for each in found] == pytest.approx(scores, abs=1e-5)
    by_tokens = {each.tokens: each for each in truth}
    for hypothesis in found:
        assert by_tokens[hypothesis.tokens].score == pytest.approx(hypothesis.score, abs=1e-5)


@pytest.mark.parametrize("alpha", [-1.0, -0.5, 0.0, 0.2, 0.6, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("min_length", [1, 3, 6])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_embedded_table(alpha: float, min_length: int, penalty: Penalty) -> None:
    drawn = Drawn(SMALL, 4, 6, alpha, min_length, (), penalty)
    best = truth_of(drawn)[0]
    found = wide_search(drawn, 1)[0]
    assert found.tokens == best.tokens
    assert found.score == pytest.approx(best.score, abs=1e-5)


def test_the_embedded_table_tells_penalties_apart() -> None:
    """Else the test above would pass with any formula."""
    best = {alpha: truth_of(Drawn(SMALL, 4, 6, alpha, 1, ()))[0].tokens for alpha in (-1.0, 0.0, 0.6, 2.0)}
    assert len(set(best.values())) >= 2
    both = [truth_of(Drawn(SMALL, 4, 6, 0.6, 1, (), penalty))[0].score for penalty in PENALTIES]
    assert abs(both[0] - both[1]) > 0.01
