"""Ensembles average probabilities."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_search import BOS, EOS, Prefix, Table, TableStep, by_the_book, listed_table, random_table

from dragoman.errors import ConfigError, VocabularyMismatch
from dragoman.search import Ensemble, SearchOptions, beam_search


def mean_table(tables: list[Table]) -> Table:
    """The table of the mean distribution."""

    def table(prefix: Prefix) -> list[float]:
        rows = torch.tensor([each(prefix) for each in tables], dtype=torch.float64).softmax(-1)
        return [float(value) for value in rows.mean(0).log()]

    return table


@settings(max_examples=40)
@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=3), st.integers(1, 4))
def test_searches_the_mean_distribution(seeds: list[int], beam: int) -> None:
    tables = [random_table(seed, 7) for seed in seeds]
    ((found,),) = beam_search(
        Ensemble([TableStep([table]) for table in tables]),
        source_lengths=[3],
        options=SearchOptions(beam_size=beam, max_extra=3),
        bos_id=BOS,
        eos_id=EOS,
    )
    if beam > 1:
        book, _ = by_the_book(
            mean_table(tables), limit=6, beam=beam, n_best=1, alpha=0.6, min_length=1, bans=()
        )
        assert found.tokens == book[0].tokens
        assert found.score == pytest.approx(book[0].score, abs=1e-5)
    total = sum(
        torch.tensor(mean_table(tables)(found.tokens[:k])).log_softmax(0)[token].item()
        for k, token in enumerate(found.tokens)
    )
    assert found.log_probability == pytest.approx(total, abs=1e-5)


def test_a_zero_of_one_member_is_no_zero() -> None:
    members = [TableStep([listed_table({}, row)]) for row in ([0.0, 0.5, 0.5], [0.8, 0.2, 0.0])]
    logits = Ensemble(members)(torch.tensor([[BOS]]))
    assert logits.softmax(-1).flatten().tolist() == pytest.approx([0.4, 0.35, 0.25], abs=1e-6)


def test_members_must_share_a_vocabulary() -> None:
    ensemble = Ensemble([TableStep([random_table(1, 5)]), TableStep([random_table(1, 6)])])
    with pytest.raises(VocabularyMismatch, match=r"\[5, 6\]"):
        ensemble(torch.tensor([[BOS]]))


def test_no_members_are_refused() -> None:
    with pytest.raises(ConfigError, match="no models"):
        Ensemble([])


def test_broken_members_are_found_out() -> None:
    ensemble = Ensemble([TableStep([random_table(1, 3)]), TableStep([lambda _: [math.nan, 0.0, 0.0]])])
    with pytest.raises(Exception, match="not finite"):
        beam_search(ensemble, source_lengths=[2], options=SearchOptions(), bos_id=BOS, eos_id=EOS)
