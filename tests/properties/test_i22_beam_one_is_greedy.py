"""I22: a beam of one is greedy: text and score equal an argmax loop written apart.

Paper: 6.1
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_search import BOS, EOS, NO_CHANCE, Drawn, Prefix, Table, TableStep, problems, random_table

from dragoman.search import SearchOptions, beam_search


def argmax_loop(table: Table, *, limit: int, min_length: int, bans: tuple[int, ...]) -> tuple[Prefix, float]:
    """Greedy search in plain Python and float64."""
    tokens: list[int] = []
    total = 0.0
    while len(tokens) < limit and EOS not in tokens:
        logits = table(tuple(tokens))
        values = torch.tensor(logits, dtype=torch.float64).log_softmax(0).tolist()
        banned = set(bans) | ({EOS} if len(tokens) + 1 < min_length else set())
        allowed = [k for k in range(len(logits)) if k not in banned]
        best = max(allowed, key=lambda k: (logits[k], -k))
        tokens.append(best)
        total += values[best]
    return tuple(tokens), total


@given(st.lists(problems(most_tokens=6, longest=9, with_ties=True), min_size=1, max_size=4))
def test_equals_an_argmax_loop(drawn: list[Drawn]) -> None:
    first = drawn[0]
    tables = [each.table for each in drawn if each.vocab_size == first.vocab_size]
    limits = [each.limit for each in drawn if each.vocab_size == first.vocab_size]
    min_length = min(first.min_length, *limits) if len(limits) > 1 else first.min_length
    options = SearchOptions(beam_size=1, alpha=first.alpha, min_length=min_length, max_extra=0)
    found = beam_search(
        TableStep(tables),
        source_lengths=limits,
        options=options,
        bos_id=BOS,
        eos_id=EOS,
        forbidden_ids=first.bans,
    )
    for table, limit, (hypothesis,) in zip(tables, limits, found, strict=True):
        tokens, total = argmax_loop(table, limit=limit, min_length=min_length, bans=first.bans)
        assert hypothesis.tokens == tokens
        assert hypothesis.finished == (tokens[-1] == EOS)
        assert hypothesis.log_probability == pytest.approx(total, abs=1e-5)
        assert hypothesis.score == pytest.approx(total / ((5 + len(tokens)) / 6) ** first.alpha, abs=1e-5)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_a_large_vocabulary(seed: int, limit: int) -> None:
    table = random_table(seed, 700)
    options = SearchOptions(beam_size=1, max_extra=0)
    ((hypothesis,),) = beam_search(
        TableStep([table]),
        source_lengths=[limit],
        options=options,
        bos_id=BOS,
        eos_id=EOS,
        forbidden_ids=[1, 2],
    )
    tokens, total = argmax_loop(table, limit=limit, min_length=1, bans=(1, 2))
    assert hypothesis.tokens == tokens
    assert hypothesis.log_probability == pytest.approx(total, abs=1e-5)
    assert NO_CHANCE < hypothesis.score <= 0
