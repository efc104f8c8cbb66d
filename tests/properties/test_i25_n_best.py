"""I25: of the n best the first is the 1-best; all distinct, in order, and as many as are possible.

Paper: 6.1
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from toy_search import BOS, EOS, Drawn, TableStep, enumerated, problems

from dragoman.search import Hypothesis, SearchOptions, beam_search


def searched(drawn: Drawn, beam: int, n_best: int) -> list[Hypothesis]:
    options = SearchOptions(
        beam_size=beam, alpha=drawn.alpha, n_best=n_best, min_length=drawn.min_length, max_extra=0
    )
    return beam_search(
        TableStep([drawn.table]),
        source_lengths=[drawn.limit],
        options=options,
        bos_id=BOS,
        eos_id=EOS,
        forbidden_ids=drawn.bans,
    )[0]


@settings(max_examples=40)
@given(problems(most_tokens=6, longest=8, with_ties=True), st.integers(2, 7))
def test_asking_for_more_does_not_change_the_first(drawn: Drawn, beam: int) -> None:
    alone = searched(drawn, beam, 1)
    for n_best in (2, beam):
        found = searched(drawn, beam, n_best)
        assert found[0] == alone[0]


@given(problems(with_ties=True), st.integers(2, 9), st.data())
def test_count_order_and_flags(drawn: Drawn, beam: int, data: st.DataObject) -> None:
    n_best = data.draw(st.integers(1, beam))
    found = searched(drawn, beam, n_best)
    possible = enumerated(
        drawn.table,
        limit=drawn.limit,
        alpha=drawn.alpha,
        min_length=drawn.min_length,
        bans=drawn.bans,
    )
    assert len(found) == min(n_best, len(possible))
    assert len({each.tokens for each in found}) == len(found)
    order = [(not each.finished, -each.score) for each in found]
    assert order == sorted(order)
    for each in found:
        assert each.truncated == (EOS not in each.tokens)
        assert len(each.tokens) == drawn.limit or each.finished


@settings(max_examples=40)
@given(st.lists(problems(most_tokens=4, longest=7), min_size=2, max_size=5), st.integers(1, 4))
def test_a_batch_is_its_sentences_alone(several: list[Drawn], beam: int) -> None:
    size = several[0].vocab_size
    batch = [each for each in several if each.vocab_size == size]
    options = SearchOptions(beam_size=beam, alpha=several[0].alpha, n_best=beam, max_extra=0)
    together = beam_search(
        TableStep([each.table for each in batch]),
        source_lengths=[each.limit for each in batch],
        options=options,
        bos_id=BOS,
        eos_id=EOS,
    )
    for drawn, found in zip(batch, together, strict=True):
        (alone,) = beam_search(
            TableStep([drawn.table]),
            source_lengths=[drawn.limit],
            options=options,
            bos_id=BOS,
            eos_id=EOS,
        )
        assert found == alone
