"""Greedy search (that it equals an argmax loop is I22, in tests/properties)."""

from __future__ import annotations

import math

import pytest
import torch
from toy_search import BOS, EOS, SMALL, TableStep, listed_table

from dragoman.errors import DragomanError
from dragoman.search import SearchOptions, beam_search
from dragoman.search.candidates import Bans
from dragoman.search.greedy import best_tokens

CPU = torch.device("cpu")
GREEDY = SearchOptions(beam_size=1, max_extra=5)


def test_the_embedded_table() -> None:
    ((found,),) = beam_search(TableStep([SMALL]), source_lengths=[1], options=GREEDY, bos_id=BOS, eos_id=EOS)
    assert found.tokens == (1, 1, 0)
    assert found.log_probability == pytest.approx(math.log(0.5 * 0.4 * 0.4), abs=1e-6)
    assert found.score == pytest.approx(found.log_probability / (8 / 6) ** 0.6, abs=1e-9)


def test_cut_at_the_limit() -> None:
    table = listed_table({}, [0.1, 0.2, 0.7])
    ((found,),) = beam_search(TableStep([table]), source_lengths=[2], options=GREEDY, bos_id=BOS, eos_id=EOS)
    assert found.tokens == (2,) * 7
    assert found.truncated
    assert found.score == pytest.approx(7 * math.log(0.7) / 2**0.6, abs=1e-6)


def test_no_next_token_gives_nothing() -> None:
    table = listed_table({(1,): [0.0, 0.0, 1.0]}, [0.2, 0.8, 0.0])
    step = TableStep([table])
    found = beam_search(
        step,
        source_lengths=[1],
        options=SearchOptions(beam_size=1),
        bos_id=BOS,
        eos_id=EOS,
        forbidden_ids=[2],
    )
    assert found == [[]]
    assert len(step.shapes) == 2, "and no step after that"


def test_equals_the_lower_id_first() -> None:
    logits = torch.tensor([[1.0, 5.0, 5.0, 2.0], [4.0, 0.0, 4.0, 4.0]])
    tokens, values = best_tokens(logits, Bans.of([], vocab_size=4, device=CPU))
    assert tokens.tolist() == [1, 0]
    assert torch.allclose(values, logits.double().log_softmax(-1)[[0, 1], [1, 0]], atol=1e-6)


def test_bans_give_way_to_the_next_best() -> None:
    logits = torch.tensor([[1.0, 5.0, 4.0, 2.0], [4.0, 0.0, 4.0, 4.5]])
    tokens, values = best_tokens(logits, Bans.of([1, 3], vocab_size=4, device=CPU))
    assert tokens.tolist() == [2, 0]
    assert torch.allclose(values, logits.double().log_softmax(-1)[[0, 1], [2, 0]], atol=1e-6)


def test_broken_logits_are_refused() -> None:
    logits = torch.zeros(2, 4)
    logits[1, 3] = math.nan
    with pytest.raises(DragomanError, match=r"\[1\]"):
        best_tokens(logits, Bans.of([], vocab_size=4, device=CPU))


def test_sentences_come_back_in_order() -> None:
    tables = [listed_table({(2,) * n: [1.0, 0.0, 0.0]}, [0.1, 0.2, 0.7]) for n in (4, 1, 3, 2)]
    found = beam_search(TableStep(tables), source_lengths=[1] * 4, options=GREEDY, bos_id=BOS, eos_id=EOS)
    assert [len(each.tokens) for (each,) in found] == [5, 2, 4, 3]
