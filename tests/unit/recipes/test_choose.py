"""Which recipe is chosen, by the table in the module's header."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dragoman.model.config import ModelConfig
from dragoman.model.count import count_parameters
from dragoman.recipes import choose
from dragoman.recipes.choose import Choice, choose_recipe, expected_hours
from dragoman.recipes.named import (
    base,
    brief,
    demo,
    laptop,
    quick,
    recipe_named,
    small,
    tiny,
    with_minutes,
    with_updates,
)

CPU, GPU = torch.device("cpu"), torch.device("cuda")


class Pairs:
    """As many pairs as one likes, without their tokens."""

    def __init__(self, count: int, S: int = 30, T: int = 28) -> None:
        self.count = count
        self.source_lengths, self.target_lengths = np.array([S - 1, S + 1]), np.array([T - 2, T + 2])

    def __len__(self) -> int:
        return self.count


def corpus_of(pairs: int, **lengths: int):
    return SimpleNamespace(train=Pairs(pairs, **lengths), target_subwords=SimpleNamespace(vocab_size=8_000))


@pytest.fixture
def rate(monkeypatch):
    """A machine that trains on 100 pairs a second in fp32, on twice as many in bf16, and on thrice those of `brief`."""
    measured = {"fp32": 100.0, "bf16": 200.0}

    def pairs_a_second(recipe, _corpus, _device):
        return measured[recipe.training.precision] * (3.0 if recipe.model == brief().model else 1.0)

    monkeypatch.setattr(choose, "pairs_a_second", pairs_a_second)
    monkeypatch.setattr(choose, "fast_precision", lambda _device: "fp32")
    return measured


@pytest.mark.parametrize(
    ("device", "pairs", "name"),
    [
        (CPU, 1, "laptop"),
        (CPU, 6_000, "laptop"),  # 180,000 pairs in half an hour: 30 times
        (CPU, 6_100, "demo"),
        (CPU, 15_000, "demo"),  # 12 times
        (CPU, 15_100, "quick"),  # 2,637 updates
        (CPU, 199_999, "quick"),
        (CPU, 200_000, "small"),
        (CPU, 50_000_000, "small"),
        (GPU, 49_999, "tiny"),
        (GPU, 50_000, "small"),
        (GPU, 999_999, "small"),
        (GPU, 1_000_000, "base"),
        (GPU, 4_500_000, "base"),
    ],
)
def test_the_table(rate, device, pairs, name):
    choice = choose_recipe(corpus_of(pairs), device)
    assert choice.recipe.name == name
    where = "a GPU" if device is GPU else choose._where(CPU)
    assert choice.reason.startswith(f"{pairs:,} pairs on {where}")
    assert choice.expected_hours == expected_hours(choice.recipe, corpus_of(pairs), device)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_number_format_is_the_faster_one_and_nothing_else_changes(rate, monkeypatch, precision):
    monkeypatch.setattr(choose, "fast_precision", lambda _device: precision)
    choice = choose_recipe(corpus_of(300_000), CPU)
    assert choice.recipe == small().with_changes([f"training.precision={precision}"])
    assert choice.expected_hours == pytest.approx(
        expected_hours(small(), corpus_of(300_000), CPU) / (2 if precision == "bf16" else 1)
    )


@pytest.mark.parametrize(
    ("minutes", "recipe"),
    [(13.0, demo()), (29.0, demo()), (31.0, laptop()), (600.0, laptop())],
)
def test_dropout_by_the_passes_that_the_minutes_allow(rate, monkeypatch, minutes, recipe):
    """6,000 pairs at 100 a second: a pass a minute."""
    monkeypatch.setattr(choose, "with_updates", lambda recipe, _updates: recipe)
    choice = choose_recipe(corpus_of(6_000), CPU, max_minutes=minutes)
    assert choice.recipe == recipe.with_changes(
        [f"training.max_minutes={minutes}", f"training.checkpoint_minutes={minutes / 40}"]
    )
    assert choice.reason.endswith(f", {minutes:.0f} passes over them")
    assert choice.expected_hours <= minutes / 60


@pytest.mark.parametrize("minutes", [13.0, 26.0, 29.0, 60.0])
def test_the_rate_rises_sooner_where_there_are_few_updates(rate, minutes):
    """100 pairs a second, 2,048 tokens of 30 an update: 88 updates a minute."""
    recipe = choose_recipe(corpus_of(6_000), CPU, max_minutes=minutes).recipe
    updates = 60 * minutes * 100 / (2_048 / 30)
    plain = with_minutes(demo() if minutes < 30 else laptop(), minutes)
    assert recipe == with_updates(plain, updates)
    assert (recipe == plain) is (updates >= 2_400)


@pytest.mark.parametrize(
    ("pairs", "minutes", "name"),
    [
        (6_000, 11.9, "brief"),  # 1,046 updates
        (6_000, 12.1, "demo"),  # as few, but each pair is seen twelve times
        (60_000, 22.7, "brief"),  # 1,995
        (60_000, 22.9, "quick"),
        (199_999, 22.7, "brief"),
        (199_999, 30.0, "quick"),
    ],
)
def test_few_updates_of_few_passes_are_for_a_smaller_model(rate, pairs, minutes, name):
    choice = choose_recipe(corpus_of(pairs), CPU, max_minutes=minutes)
    assert choice.recipe.name == name
    as_fast = 300.0 if name == "brief" else 100.0
    assert choice.reason.endswith(f", {60 * minutes * as_fast / pairs:,.0f} passes over them")
    plain = with_minutes(recipe_named(name), minutes)
    assert choice.recipe == with_updates(plain, 60 * minutes * as_fast / (2_048 / 30))


def test_the_smaller_model_has_a_quarter_of_the_operations():
    """Weights that multiply each token of a pair, at the vocabulary that the recipes have."""
    counts = [
        count_parameters(ModelConfig.from_shape(recipe.model, vocab_size=5_000)).total
        for recipe in (brief(), quick())
    ]
    assert 0.2 < counts[0] / counts[1] < 0.3


def test_passes_are_counted_at_the_faster_rate(rate, monkeypatch):
    monkeypatch.setattr(choose, "fast_precision", lambda _device: "bf16")
    assert choose_recipe(corpus_of(12_000), CPU).recipe.name == "laptop"
    assert choose_recipe(corpus_of(12_100), CPU).recipe.name == "demo"


def test_hours_by_hand(rate):
    recipe = base().with_changes(["training.max_steps=1000"])
    expected = (25_000 / 30) * 1000 / 100.0 / 3600  # pairs an update, updates, pairs a second
    assert expected_hours(recipe, corpus_of(5), CPU) == pytest.approx(expected, rel=1e-9)
    longer = recipe.with_changes(["training.max_steps=3000"])
    assert expected_hours(longer, corpus_of(5), CPU) == pytest.approx(3 * expected, rel=1e-9)


@pytest.mark.parametrize(("threads", "text"), [(1, "1 CPU thread"), (2, "2 CPU threads")])
def test_where_it_was_measured_is_said_in_good_english(monkeypatch, threads, text):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert choose._where(CPU) == text


def test_a_wider_model_trains_on_fewer_pairs_a_second():
    narrow = tiny().with_changes(["model.N=1", "model.d_model=16", "model.h=2", "model.d_ff=16"])
    wide = tiny().with_changes(["model.N=2", "model.d_model=256", "model.d_ff=1024"])
    rates = [choose.pairs_a_second(recipe, corpus_of(5), CPU) for recipe in (narrow, wide)]
    assert rates[0] > 2 * rates[1] > 0


def test_minutes_are_a_limit(rate):
    hours = expected_hours(tiny(), corpus_of(5), CPU)
    for minutes, expected in ((30 * hours, hours / 2), (120 * hours, hours)):
        limited = tiny().with_changes([f"training.max_minutes={minutes}"])
        assert expected_hours(limited, corpus_of(5), CPU) == pytest.approx(expected)


@pytest.mark.parametrize(("device", "pairs"), [(CPU, 6_000), (CPU, 300_000), (GPU, 300_000)])
def test_minutes_are_a_limit_whatever_recipe_is_chosen(rate, device, pairs):
    assert choose_recipe(corpus_of(pairs), device, max_minutes=0.5).expected_hours == 0.5 / 60
    assert choose_recipe(corpus_of(pairs), device, max_minutes=1e9).expected_hours < 1e7


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (0.8, "0.8 minutes"),
        (9.94, "9.9 minutes"),
        (9.96, "10 minutes"),
        (30.0, "30 minutes"),
        (99.4, "99 minutes"),
        (99.6, "1.7 hours"),
        (6_000.0, "100.0 hours"),
    ],
)
def test_time_in_the_unit_a_person_would_use(minutes, text):
    assert Choice(tiny(), "", minutes / 60).expected_time == text


def test_a_real_corpus_on_this_machine(corpus):
    choice = choose_recipe(corpus, CPU)
    assert choice.recipe.name == "laptop"
    assert 0 < choice.expected_hours <= 0.5
