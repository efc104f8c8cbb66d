"""I24: no beam reports more than the enumerated best, and what it reports is what its tokens score.

Paper: 6.1
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toy_search import (
    BOS,
    EOS,
    PENALTIES,
    Drawn,
    Table,
    TableStep,
    by_the_book,
    enumerated,
    problems,
    random_table,
)

from dragoman.search import Hypothesis, SearchOptions, beam_search, forced_scores, token_log_probabilities
from dragoman.search.length import Penalty


def searched(drawn: Drawn, beam: int, n_best: int, dtype: torch.dtype = torch.float32) -> list[Hypothesis]:
    options = SearchOptions(
        beam_size=beam,
        alpha=drawn.alpha,
        n_best=n_best,
        min_length=drawn.min_length,
        max_extra=0,
        penalty=drawn.penalty,
    )
    return beam_search(
        TableStep([drawn.table], dtype=dtype),
        source_lengths=[drawn.limit],
        options=options,
        bos_id=BOS,
        eos_id=EOS,
        forbidden_ids=drawn.bans,
    )[0]


def recomputed(table: Table, hypothesis: Hypothesis, alpha: float, penalty: Penalty) -> float:
    """The score by way of forced scoring, as the score command does it."""
    tokens = hypothesis.tokens
    logits = torch.tensor([[table(tokens[:k]) for k in range(len(tokens))]])
    values = token_log_probabilities(logits, torch.tensor([tokens]))
    return forced_scores(list(values), alpha=alpha, penalty=penalty)[0].score


@given(problems(with_ties=True), st.integers(1, 8))
def test_never_above_the_enumerated_best(drawn: Drawn, beam: int) -> None:
    truth = enumerated(
        drawn.table,
        limit=drawn.limit,
        alpha=drawn.alpha,
        min_length=drawn.min_length,
        bans=drawn.bans,
        penalty=drawn.penalty,
    )
    best = {flag: max((t.score for t in truth if t.finished == flag), default=0.0) for flag in (True, False)}
    for hypothesis in searched(drawn, beam, beam):
        assert hypothesis.score <= best[hypothesis.finished] + 1e-6


@given(problems(most_tokens=6, longest=8, with_ties=True), st.integers(1, 8))
def test_the_score_is_that_of_the_tokens(drawn: Drawn, beam: int) -> None:
    for hypothesis in searched(drawn, beam, beam):
        again = recomputed(drawn.table, hypothesis, drawn.alpha, drawn.penalty)
        assert hypothesis.score == pytest.approx(again, rel=1e-6, abs=1e-5)
        lp = PENALTIES[drawn.penalty](len(hypothesis.tokens), drawn.alpha)
        assert hypothesis.score == pytest.approx(hypothesis.log_probability / lp, rel=1e-6, abs=1e-6)


@given(problems(most_tokens=9, longest=8), st.integers(2, 6), st.integers(1, 6))
def test_every_beam_is_the_book_s(drawn: Drawn, beam: int, n_best: int) -> None:
    """Token for token, against the specification written out on lists."""
    check_by_the_book(drawn, beam, min(n_best, beam))


@given(problems(most_tokens=9, longest=8, with_ties=True), st.integers(2, 6), st.integers(1, 6))
def test_every_beam_is_the_book_s_equals_and_all(drawn: Drawn, beam: int, n_best: int) -> None:
    """By PyTorch: what is equal in truth must be rounded on both sides alike to be equal on both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dragoman.search.candidates.kernels_for", lambda _x: None)
        check_by_the_book(drawn, beam, min(n_best, beam))


def check_by_the_book(drawn: Drawn, beam: int, n_best: int) -> None:
    book, _ = by_the_book(
        drawn.table,
        limit=drawn.limit,
        beam=beam,
        n_best=n_best,
        alpha=drawn.alpha,
        min_length=drawn.min_length,
        bans=drawn.bans,
        penalty=drawn.penalty,
    )
    found = searched(drawn, beam, n_best)
    assert [(each.tokens, each.finished) for each in found] == [(each.tokens, each.finished) for each in book]
    assert [each.score for each in found] == pytest.approx([each.score for each in book], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("levels", [0, 3, 40])
@pytest.mark.parametrize("vocab_size", [512, 575, 640])
def test_every_beam_is_the_book_s_on_large_vocabularies(vocab_size: int, levels: int) -> None:
    """Where the candidates are found by chunks."""
    for seed in range(3):
        drawn = Drawn(random_table(seed, vocab_size, levels=levels), vocab_size, 6, 0.6, 2, (1, 2, 70))
        book, _ = by_the_book(
            drawn.table, limit=6, beam=3, n_best=3, alpha=0.6, min_length=2, bans=drawn.bans
        )
        assert [each.tokens for each in searched(drawn, 3, 3)] == [each.tokens for each in book]
