"""Measures as sums over segments."""

from __future__ import annotations

import pytest

from dragoman.errors import ConfigError
from dragoman.scoring.measures import MEASURES, MeasureName, measure
from dragoman.scoring.score import check_segments

SEGMENTS = check_segments(
    ["the cat sat on a rug", "", "a dog\rbarks at the moon", "short"],
    [
        ["the cat sat on the mat", "blank", "a dog barks at the moon", ""],
        ["a cat sat on a mat", "", "dogs bark at the moon", "short one"],
    ],
)


@pytest.mark.parametrize("name", MEASURES)
def test_the_total_of_the_rows_gives_the_score(name: MeasureName) -> None:
    chosen = measure(name, target_language="de")
    rows = chosen.rows(SEGMENTS)
    assert len(rows) == len(SEGMENTS)
    score = chosen.score(SEGMENTS)
    assert 0 < score.value < 100
    assert chosen.value(rows.sum(axis=0).tolist()) == pytest.approx(score.value, abs=1e-12)


@pytest.mark.parametrize("name", MEASURES)
def test_signatures_take_further_pairs(name: MeasureName) -> None:
    chosen = measure(name, target_language="de")
    chosen.rows(SEGMENTS)
    assert chosen.signature(SEGMENTS, {}) == chosen.score(SEGMENTS).signature
    assert "bs:7|seed:1|" in chosen.signature(SEGMENTS, {"bs": 7, "seed": 1})


def test_settings_reach_the_metric() -> None:
    loud = check_segments(["THE CAT SAT ON A MAT"], ["the cat sat on a mat"])
    for name in ("bleu", "chrf"):
        chosen = measure(name, lowercase=True)
        assert chosen.value(chosen.rows(loud).sum(axis=0).tolist()) == pytest.approx(100.0)
        assert chosen.score(loud).value == pytest.approx(100.0)
    chosen = measure("bleu", tokenize="char")
    assert "tok:char" in chosen.score(loud).signature


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "ter"}, "no measure named 'ter'"),
        ({"name": "chrf", "tokenize": "13a"}, "chrf has no tokenizer"),
        ({"name": "paper", "target_language": "de", "tokenize": "13a"}, "paper has no tokenizer"),
        ({"name": "paper", "target_language": "de", "lowercase": True}, "is cased"),
        ({"name": "paper"}, "needs the target language"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        measure(**settings)  # type: ignore[arg-type]
