"""Sampling."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_search import BOS, EOS, SMALL, Table, TableStep, listed_table, next_log_probabilities, random_table

from dragoman.errors import ConfigError, DragomanError
from dragoman.search import Hypothesis, SamplingOptions, sample
from dragoman.search.candidates import Bans
from dragoman.search.sampling import draw, random_numbers

CPU = torch.device("cpu")
ROW = [0.1, 0.4, 0.2, 0.3]
LOGITS = torch.tensor(ROW).log().view(1, 1, 4)


def sampled(
    tables: list[Table], options: SamplingOptions, numbers: list[int] | None = None
) -> list[list[Hypothesis]]:
    return sample(
        TableStep(list(tables)),
        source_lengths=[1] * len(tables),
        options=options,
        bos_id=BOS,
        eos_id=EOS,
        sentence_numbers=numbers,
    )


def drawn_tokens(
    numbers: list[float], options: SamplingOptions, banned: list[int] | None = None
) -> list[int]:
    tokens, _ = draw(
        LOGITS,
        torch.tensor([numbers], dtype=torch.float64),
        live_BK=torch.ones(1, len(numbers), dtype=torch.bool),
        bans=Bans.of(banned or [], vocab_size=4, device=CPU),
        options=options,
    )
    found: list[int] = tokens[0].tolist()
    return found


def test_takes_the_token_at_the_number() -> None:
    numbers = [0.0, 0.09, 0.11, 0.49, 0.51, 0.69, 0.71, 0.9999999]
    assert drawn_tokens(numbers, SamplingOptions(seed=0)) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_bans_are_shared_out() -> None:
    assert drawn_tokens([0.0, 0.24, 0.26, 0.99], SamplingOptions(seed=0), banned=[1, 2]) == [0, 0, 3, 3]


def test_top_k_takes_the_most_probable() -> None:
    options = SamplingOptions(seed=0, top_k=2)
    assert drawn_tokens([0.0, 0.56, 0.58, 0.999], options) == [1, 1, 3, 3]


def test_top_k_beyond_the_vocabulary_is_all() -> None:
    assert set(drawn_tokens([k / 20 for k in range(20)], SamplingOptions(seed=0, top_k=99))) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("top_p", "tokens"), [(0.39, {1}), (0.41, {1, 3}), (0.71, {1, 3, 2}), (0.95, {0, 1, 2, 3})]
)
def test_top_p_takes_the_fewest_that_hold_it(top_p: float, tokens: set[int]) -> None:
    options = SamplingOptions(seed=0, top_p=top_p)
    assert set(drawn_tokens([k / 50 for k in range(50)], options)) == tokens


def test_low_temperature_is_greedy_and_high_is_uniform() -> None:
    numbers = [(k + 0.5) / 100 for k in range(100)]
    assert set(drawn_tokens(numbers, SamplingOptions(seed=0, temperature=0.01))) == {1}
    counts = Counter(drawn_tokens(numbers, SamplingOptions(seed=0, temperature=1000.0)))
    assert all(24 <= counts[token] <= 26 for token in range(4))


def test_a_token_of_no_probability_is_never_drawn() -> None:
    logits = torch.tensor([0.0, 0.5, 0.0, 0.5, 0.0]).log().view(1, 1, 5)
    numbers = [0.0, 0.25, 0.5, 1.0 - 2**-53, 1.0]
    for options in (
        SamplingOptions(seed=0),
        SamplingOptions(seed=0, top_p=0.9),
        SamplingOptions(seed=0, top_k=4),
    ):
        tokens, values = draw(
            logits,
            torch.tensor([numbers], dtype=torch.float64),
            live_BK=torch.ones(1, 5, dtype=torch.bool),
            bans=Bans.of([], vocab_size=5, device=CPU),
            options=options,
        )
        assert set(tokens[0].tolist()) <= {1, 3}
        assert values.exp().flatten().tolist() == pytest.approx([0.5] * 5, abs=1e-6)


@settings(max_examples=40)
@given(st.integers(0, 2**40), st.integers(1, 3), st.sampled_from([0, 3]), st.sampled_from([0.8, 1.0]))
def test_log_probability_is_the_model_s_own(seed: int, samples: int, top_k: int, top_p: float) -> None:
    table = random_table(5, 6)
    options = SamplingOptions(
        seed=seed, samples=samples, temperature=0.7, top_k=top_k, top_p=top_p, alpha=1.0, max_extra=7
    )
    (found,) = sampled([table], options)
    assert len(found) == samples
    for each in found:
        total = sum(
            next_log_probabilities(table, each.tokens[:k])[token] for k, token in enumerate(each.tokens)
        )
        assert each.log_probability == pytest.approx(total, abs=1e-9)
        assert each.score == pytest.approx(total / ((5 + len(each.tokens)) / 6), abs=1e-9)
        assert each.finished == (each.tokens[-1] == EOS)


@settings(max_examples=25)
@given(st.integers(0, 2**40), st.permutations(range(5)))
def test_depends_on_seed_and_sentence_alone(seed: int, order: list[int]) -> None:
    tables = [random_table(k, 6) for k in range(5)]
    options = SamplingOptions(seed=seed, samples=2, max_extra=6)
    straight = sampled(tables, options)
    shuffled = sampled([tables[k] for k in order], options, numbers=order)
    assert [straight[k] for k in order] == shuffled
    for k in (0, 4):
        assert sampled([tables[k]], options, numbers=[k]) == [straight[k]]


def test_asking_for_more_does_not_change_the_first() -> None:
    two, five = (sampled([SMALL], SamplingOptions(seed=3, samples=n))[0] for n in (2, 5))
    assert five[:2] == two


def test_seeds_sentences_and_draws_differ() -> None:
    numbers = [
        random_numbers([sentence], [8], SamplingOptions(seed=seed, samples=2))[0, k].tolist()
        for seed in (1, 2)
        for sentence in (1, 2)
        for k in (0, 1)
    ]
    assert len({tuple(each) for each in numbers}) == 8
    assert all(0 <= number < 1 for each in numbers for number in each)


def test_the_numbers_do_not_depend_on_the_longest() -> None:
    options = SamplingOptions(seed=9)
    alone = random_numbers([0], [4], options)[0, 0]
    beside = random_numbers([0, 1], [4, 30], options)[0, 0, :4]
    assert torch.equal(alone, beside)


def test_frequencies_are_the_distribution() -> None:
    """4000 first tokens against their probabilities: within five standard deviations."""
    (found,) = sampled([listed_table({}, ROW)], SamplingOptions(seed=11, samples=4000, max_extra=0))
    counts = Counter(each.tokens[0] for each in found)
    for token, share in enumerate(ROW):
        assert abs(counts[token] / 4000 - share) < 5 * math.sqrt(share * (1 - share) / 4000)


def test_draws_of_one_sentence_end_apart() -> None:
    (found,) = sampled([listed_table({}, [0.4, 0.3, 0.3])], SamplingOptions(seed=2, samples=12, max_extra=9))
    assert len({len(each.tokens) for each in found}) > 2
    assert all(EOS not in each.tokens[:-1] for each in found)


def test_no_next_token_leaves_the_draw_out() -> None:
    table = listed_table({(1,): [0.0, 0.0, 1.0]}, [0.5, 0.5, 0.0])
    options = SamplingOptions(seed=4, samples=20)
    (found,) = sample(
        TableStep([table]), source_lengths=[1], options=options, bos_id=BOS, eos_id=EOS, forbidden_ids=[2]
    )
    assert 0 < len(found) < 20
    assert {each.tokens for each in found} == {(EOS,)}


def test_no_sentences() -> None:
    assert sampled([], SamplingOptions(seed=1)) == []


def test_numbers_must_match_the_sentences() -> None:
    with pytest.raises(ConfigError, match="2 sentence numbers for 1"):
        sampled([SMALL], SamplingOptions(seed=1), numbers=[0, 1])


def test_broken_logits_are_refused() -> None:
    with pytest.raises(DragomanError, match="not finite"):
        sampled([lambda _: [math.nan, 1.0]], SamplingOptions(seed=1))
