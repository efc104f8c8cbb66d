"""The penalty n^alpha and other limits: the functions themselves, and all that a translator reports with them.

Paper: 6.1
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_runs import tiny_facts, tiny_recipe, write_random_bundle

from dragoman.errors import ConfigError
from dragoman.translator import Translator
from dragoman.variants.length_limit import longest_output
from dragoman.variants.power_penalty import power_penalty
from dragoman.variants.search_rules import LengthLimit, PowerPenalty, search_rules

UNITS = ["one two three", "twelve", "six seven eight nine ten", ""]


@given(st.integers(1, 2_000), st.floats(-3.0, 3.0))
def test_the_penalty_is_the_mean_by_tokens_where_alpha_is_1(n, alpha):
    assert power_penalty(n, 1.0) == n
    assert power_penalty(n, 0.0) == power_penalty(1, alpha) == 1.0
    assert power_penalty(n, alpha) == pytest.approx(float(n) ** alpha, rel=1e-12)
    sides = power_penalty(n, alpha), power_penalty(n + 1, alpha)
    assert sides[0] <= sides[1] if alpha >= 0 else sides[0] >= sides[1]


def test_a_table_may_begin_with_nothing():
    assert power_penalty(0, 0.6) == power_penalty(0, -1.0) == 1.0


@given(st.integers(1, 500), st.floats(0.0, 10.0), st.integers(0, 300))
def test_limits(source, times, plus):
    found = longest_output(source, times, plus)
    assert found >= 1
    assert found in (1, int(times * source) + plus)
    assert longest_output(source, 0.0, 200) == 200
    assert longest_output(source, 3.0, 0) == 3 * source


def test_what_is_asked_for_is_what_a_search_is_given():
    assert search_rules(()).penalty is None
    assert search_rules(()).limit is None
    both = search_rules((PowerPenalty(), LengthLimit(times=1.5, plus=2)))
    assert both.penalty is power_penalty
    assert both.limit(4) == 8


@pytest.fixture(scope="module", params=["auto", "exact"])
def translators(request, small_corpus, tmp_path_factory) -> tuple[Translator, Translator]:
    """One of the paper's rules and one of n^alpha and 2 S + 1, of the same weights."""
    folder = tmp_path_factory.mktemp("rules")
    made = []
    for name, changes in (
        ("plain", ()),
        (
            "other",
            ('departures.search=["power_penalty", {name = "length_limit", times = 2.0, plus = 1}]',),
        ),
    ):
        facts = tiny_facts(small_corpus, tiny_recipe(*changes))
        made.append(Translator.load(write_random_bundle(folder / name, facts), engine=request.param))
    return made[0], made[1]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_scores_are_log_p_by_n_to_the_alpha_however_they_are_found(translators, beam_size):
    _, other = translators
    found = other.translate(UNITS, beam_size=beam_size, alpha=0.8, n_best=beam_size)
    drawn = other.sample(UNITS, seed=2, alpha=0.8)
    for translation in [*found, *drawn]:
        for one in (translation, *translation.alternatives):
            if not one.pieces and not one.log_probability:
                continue
            n = len(one.pieces) + (not one.truncated)
            assert one.score == pytest.approx(one.log_probability / n**0.8, rel=1e-9)
    kept = [t for t in [*found, *drawn] if t.text and not t.truncated]
    scores = other.score_pieces([t.source for t in kept], [t.pieces for t in kept], alpha=0.8)
    assert scores == pytest.approx([t.score for t in kept], abs=1e-4)


def test_limits_are_kept_and_one_that_is_given_counts_more(translators):
    plain, other = translators
    lengths = [len(plain.source_subwords.encode(unit)) + 1 for unit in UNITS]
    for searched, longest in ((plain, lambda S: S + 50), (other, lambda S: 2 * S + 1)):
        for S, found in zip(lengths, searched.translate(UNITS, beam_size=2, min_length=1), strict=True):
            assert len(found.pieces) + (not found.truncated) <= longest(S)
    cut = [t.truncated for t in other.translate(UNITS[:3], beam_size=1)]
    assert cut == [t.truncated for t in other.translate(UNITS[:3], beam_size=1)]
    given_limit = other.translate(UNITS[:1], beam_size=1, max_extra=0)[0]
    assert len(given_limit.pieces) + (not given_limit.truncated) <= lengths[0]


def test_a_minimum_beyond_the_limit_is_refused(translators):
    _, other = translators
    with pytest.raises(ConfigError, match="above the length limit"):
        other.translate(["twelve"], min_length=50)
