"""I27: nothing follows EOS, and no step is run once nothing can change.

Paper: 6.1
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_search import BOS, EOS, Drawn, TableStep, by_the_book, listed_table, problems, random_table

from dragoman.search import SamplingOptions, SearchOptions, beam_search, sample


@given(problems(most_tokens=6, longest=9, with_ties=True), st.integers(2, 5), st.data())
def test_as_many_steps_as_the_book_needs(drawn: Drawn, beam: int, data: st.DataObject) -> None:
    n_best = data.draw(st.integers(1, beam))
    step = TableStep([drawn.table], dtype=torch.float64)
    options = SearchOptions(
        beam_size=beam,
        alpha=drawn.alpha,
        n_best=n_best,
        min_length=drawn.min_length,
        max_extra=0,
        penalty=drawn.penalty,
    )
    beam_search(
        step,
        source_lengths=[drawn.limit],
        options=options,
        bos_id=BOS,
        eos_id=EOS,
        forbidden_ids=drawn.bans,
    )
    _, steps = by_the_book(
        drawn.table,
        limit=drawn.limit,
        beam=beam,
        n_best=n_best,
        alpha=drawn.alpha,
        min_length=drawn.min_length,
        bans=drawn.bans,
        penalty=drawn.penalty,
        dtype=torch.float64,
    )
    assert len(step.shapes) == steps


@settings(max_examples=40)
@given(st.lists(st.integers(0, 2**20), min_size=1, max_size=5), st.integers(1, 4), st.integers(1, 10))
def test_finished_prefixes_are_never_continued(seeds: list[int], beam: int, limit: int) -> None:
    """With a vocabulary of over twice the beam no place of the beam is ever empty."""
    step = TableStep([random_table(seed, 11) for seed in seeds])
    options = SearchOptions(beam_size=beam, max_extra=limit - 1)
    beam_search(step, source_lengths=[1] * len(seeds), options=options, bos_id=BOS, eos_id=EOS)
    assert step.after_eos == 0


@settings(max_examples=30)
@given(st.lists(st.integers(0, 2**20), min_size=2, max_size=5), st.integers(1, 4), st.booleans())
def test_finished_sentences_leave_the_batch(seeds: list[int], beam: int, is_drawn: bool) -> None:
    tables = [random_table(seed, 5) for seed in seeds]
    lengths = list(range(1, len(seeds) + 1))
    step = TableStep(list(tables))
    alone: list[int] = []
    for table, length in zip(tables, lengths, strict=True):
        single = TableStep([table])
        if is_drawn:
            options = SamplingOptions(seed=1, max_extra=2)
            number = [len(alone)]
            sample(
                single,
                source_lengths=[length],
                options=options,
                bos_id=BOS,
                eos_id=EOS,
                sentence_numbers=number,
            )
        else:
            search = SearchOptions(beam_size=beam, max_extra=2)
            beam_search(single, source_lengths=[length], options=search, bos_id=BOS, eos_id=EOS)
        alone.append(len(single.shapes))
    if is_drawn:
        sample(
            step,
            source_lengths=lengths,
            options=SamplingOptions(seed=1, max_extra=2),
            bos_id=BOS,
            eos_id=EOS,
        )
    else:
        search = SearchOptions(beam_size=beam, max_extra=2)
        beam_search(step, source_lengths=lengths, options=search, bos_id=BOS, eos_id=EOS)
    assert len(step.shapes) == max(alone)
    assert [sentences for sentences, _ in step.shapes] == [
        sum(steps > done for steps in alone) for done in range(max(alone))
    ]


def test_a_bound_that_only_equals_is_no_reason_to_go_on() -> None:
    step = TableStep([listed_table({}, [0.5, 0.5])])
    options = SearchOptions(beam_size=2, alpha=0.0)
    ((found,),) = beam_search(step, source_lengths=[3], options=options, bos_id=BOS, eos_id=EOS)
    assert found.tokens == (EOS,)
    assert len(step.shapes) == 1


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_one_step_where_eos_is_certain(beam: int) -> None:
    step = TableStep([listed_table({}, [1.0, 0.0, 0.0])])
    options = SearchOptions(beam_size=beam)
    ((found,),) = beam_search(step, source_lengths=[3], options=options, bos_id=BOS, eos_id=EOS)
    assert found.tokens == (EOS,)
    assert found.score == pytest.approx(0.0, abs=1e-7)
    assert len(step.shapes) == 1
