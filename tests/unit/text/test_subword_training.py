"""Training subwords: determinism, what is left out, sizes that do not fit, failing sources.

Paper: 5.1
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.errors import ConfigError, DataError
from dragoman.text.subword_training import SubwordSettings, train_model
from dragoman.text.subwords import Subwords

UNITS = [f"sentence {k} of the text has the number {k * k}" for k in range(200)]
LARGEST = 10_000


def test_same_text_same_bytes() -> None:
    settings = SubwordSettings(vocab_size=350)
    first = train_model(UNITS, settings)
    assert first.model == train_model(iter(UNITS), settings).model
    assert first.report.used == first.report.units == 200
    assert first.report.lines() == []


def test_the_model_holds_no_path_and_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = train_model(UNITS, SubwordSettings(vocab_size=300)).model
    assert os.fspath(tmp_path).encode() not in model
    assert os.listdir(tmp_path) == []


def test_two_streams_train_jointly_and_are_named() -> None:
    streams = {"a.en": ["hello there", "", "x" * 5000], "b.de": ["guten Tag", " \u3000"]}
    trained = train_model(streams, SubwordSettings(vocab_size=300))
    assert trained.report.units == 5
    assert trained.report.used == 2
    assert trained.report.left_out.lines() == [
        "a.en: 1 left out, blank: 2",
        "a.en: 1 left out, over 4192 bytes: 3",
        "b.de: 1 left out, blank: 2",
    ]
    pieces = set("".join(Subwords.from_bytes(trained.model).pieces(range(260, 290))))
    assert {"h", "g"} <= pieces


def test_length_is_counted_in_bytes_with_a_bound_that_can_be_moved() -> None:
    units = ["a" * 10, "\u00e4" * 6, "\u00e4" * 5]
    report = train_model(units, SubwordSettings(vocab_size=300, max_bytes=10)).report
    assert report.used == 2
    assert report.lines()[0] == "1 left out, over 10 bytes: 2"


def test_a_unit_at_the_limit_is_used() -> None:
    report = train_model(["\u017c" + "ab " * 1396 + "cd", "ef gh"], SubwordSettings(vocab_size=300)).report
    assert (report.used, report.left_out.total) == (2, 0)
    limit = "x" * 4190 + "\u017c"
    trained = train_model([limit, "ef gh"], SubwordSettings(vocab_size=400, character_coverage=1.0))
    assert trained.report.used == 2
    assert Subwords.from_bytes(trained.model).ids_of(["\u017c"])  # it was really read


def test_a_reserved_character_does_not_lose_its_line() -> None:
    trained = train_model(["xyz \u2585 zyx"] * 3, SubwordSettings(vocab_size=300))
    assert Subwords.from_bytes(trained.model).ids_of(["xyz"])


@pytest.mark.parametrize("units", [[], [""], [" ", "\t"], ["x" * 5000] * 2])
def test_nothing_to_train_on(units: list[str]) -> None:
    with pytest.raises(DataError, match="no usable lines") as caught:
        train_model(units, SubwordSettings(vocab_size=300))
    assert "CHECK" not in str(caught.value)
    assert "trainer_interface" not in str(caught.value)


def test_too_large_a_vocabulary_refused_or_lowered() -> None:
    with pytest.raises(ConfigError, match="too large") as caught:
        train_model(UNITS, SubwordSettings(vocab_size=LARGEST, size_policy="exact"))
    lowered = train_model(UNITS, SubwordSettings(vocab_size=LARGEST)).report
    assert f"at most {lowered.vocab_size}," in str(caught.value)
    assert lowered.lines() == [
        f"{lowered.vocab_size} subwords, not {LARGEST}: this text has no more to merge"
    ]
    exact = SubwordSettings(vocab_size=lowered.vocab_size, size_policy="exact")
    assert train_model(UNITS, exact).report.vocab_size == lowered.vocab_size


def test_too_small_a_vocabulary_refused_or_raised() -> None:
    with pytest.raises(ConfigError, match="too small") as caught:
        train_model(UNITS, SubwordSettings(vocab_size=100, size_policy="exact"))
    raised = train_model(UNITS, SubwordSettings(vocab_size=100)).report
    assert f"at least {raised.vocab_size}," in str(caught.value)
    assert raised.vocab_size > 260
    assert raised.units == 200  # counted once although read twice
    assert raised.lines() == [
        f"{raised.vocab_size} subwords, not 100: the special pieces, bytes and characters of this text "
        "take as many"
    ]


def test_text_that_can_be_read_once_is_not_raised() -> None:
    with pytest.raises(ConfigError, match="too small"):
        train_model(iter(UNITS), SubwordSettings(vocab_size=100))


def test_share_is_drawn_by_seed() -> None:
    def train(seed: int) -> bytes:
        trained = train_model(UNITS, SubwordSettings(vocab_size=300, share=0.3, seed=seed))
        assert 30 < trained.report.used < 90
        assert trained.report.lines() == [f"trained on a sample: {trained.report.used} of 200 units"]
        return trained.model

    assert train(1) == train(1)
    assert train(1) != train(2)


@pytest.mark.parametrize(
    "failure", [DataError("bad line", cure="none"), KeyboardInterrupt(), SystemExit(143), ZeroDivisionError()]
)
def test_what_the_source_raises_comes_through(failure: BaseException) -> None:
    def units() -> Iterator[str]:
        yield "a good line"
        raise failure

    with pytest.raises(type(failure)):
        train_model(units(), SubwordSettings(vocab_size=300))


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    train_model(UNITS, SubwordSettings(vocab_size=LARGEST))
    with pytest.raises(DataError):
        train_model([], SubwordSettings(vocab_size=300))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "settings",
    [
        {"vocab_size": 0},
        {"vocab_size": 300, "size_policy": "about"},
        {"vocab_size": 300, "share": 0.0},
        {"vocab_size": 300, "share": 1.5},
        {"vocab_size": 300, "character_coverage": 0.5},
        {"vocab_size": 300, "max_bytes": 0},
    ],
)
def test_impossible_settings(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        SubwordSettings(**settings)  # type: ignore[arg-type]


def test_coverage_depends_on_byte_fallback() -> None:
    assert SubwordSettings(vocab_size=300).coverage == 0.9995
    assert SubwordSettings(vocab_size=300, byte_fallback=False).coverage == 1.0
    assert SubwordSettings(vocab_size=300, character_coverage=0.99).coverage == 0.99
