"""Paired bootstrap: what it says of equal, worse and doubtful outputs, and sacreBLEU's word on the same."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from dragoman.errors import ConfigError, DataError
from dragoman.scoring.compare import compare
from dragoman.scoring.measures import MEASURES, MeasureName

SENTENCES = 120
_WORDS = "the a cat dog man sees knows old small house tree and of with runs"
VOCABULARY = _WORDS.split()


def _reference(seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(VOCABULARY, k=draw.randint(5, 14))) for _ in range(SENTENCES)]


def _with_errors(units: list[str], share: float, seed: int) -> list[str]:
    """Replace a share of all words."""
    draw = random.Random(seed)
    return [
        " ".join(word if draw.random() > share else draw.choice(VOCABULARY) for word in unit.split())
        for unit in units
    ]


REFERENCE = _reference(1)
GOOD = _with_errors(REFERENCE, 0.1, 2)
AS_GOOD = _with_errors(REFERENCE, 0.1, 3)
BAD = _with_errors(REFERENCE, 0.3, 4)


@pytest.mark.parametrize("metric", MEASURES)
def test_identical_outputs_do_not_differ(metric: MeasureName) -> None:
    result = compare(GOOD, GOOD, REFERENCE, metric=metric, target_language="de", samples=100)
    assert result.p_value == 1.0
    assert result.difference == 0.0
    assert (result.a_better, result.b_better) == (0.0, 0.0)
    assert (result.interval_difference.low, result.interval_difference.high) == (0.0, 0.0)
    assert result.interval_a == result.interval_b
    assert result.interval_a.low < result.a.value < result.interval_a.high


@pytest.mark.parametrize("metric", MEASURES)
def test_a_clearly_better_output_is_found(metric: MeasureName) -> None:
    result = compare(GOOD, BAD, REFERENCE, metric=metric, target_language="de", samples=200)
    assert result.p_value < 0.01
    assert result.difference == pytest.approx(result.a.value - result.b.value)
    assert result.a_better == 1.0
    assert result.interval_difference.low > 0


def test_the_order_of_outputs_changes_signs_only() -> None:
    one, other = (compare(a, b, REFERENCE, samples=100) for a, b in ((GOOD, BAD), (BAD, GOOD)))
    assert one.difference == -other.difference
    assert one.p_value == other.p_value
    assert (one.a_better, one.b_better) == (other.b_better, other.a_better)
    assert one.interval_difference.low == -other.interval_difference.high


def test_a_small_difference_is_doubtful() -> None:
    result = compare(GOOD, AS_GOOD, REFERENCE, samples=200)
    assert result.p_value > 0.05
    assert result.interval_difference.low < 0 < result.interval_difference.high
    assert 0 < result.a_better < 1


def test_the_seed_decides_the_answer() -> None:
    first, again, other = (compare(GOOD, AS_GOOD, REFERENCE, samples=100, seed=seed) for seed in (5, 5, 6))
    assert first == again
    assert first != other
    assert (first.a, first.b) == (other.a, other.b)


def test_the_signature_names_samples_and_seed() -> None:
    result = compare(GOOD, BAD, REFERENCE, samples=50, seed=9)
    assert result.signature.startswith("nrefs:1|bs:50|seed:9|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert (result.samples, result.seed) == (50, 9)


def test_format_and_json() -> None:
    result = compare(GOOD, BAD, REFERENCE, samples=50)
    lines = result.format().split("\n")
    assert lines[0].startswith(f"A  BLEU {result.a.value:.2f}  95% [")
    assert lines[1].startswith(f"B  BLEU {result.b.value:.2f}  95% [")
    assert f"p = {result.p_value:.4f}" in lines[2]
    assert lines[3] == result.signature
    assert json.loads(json.dumps(result.as_dict()))["a"]["value"] == result.a.value


def test_several_references_and_blanks() -> None:
    blanked = ["" if number % 10 == 0 else unit for number, unit in enumerate(GOOD)]
    result = compare(GOOD, blanked, [REFERENCE, AS_GOOD], samples=50)
    assert result.b.blank_hypotheses == 12
    assert result.signature.startswith("nrefs:2|")
    assert result.difference > 0


def test_one_sample_of_one_segment() -> None:
    result = compare(["a b c d"], ["a b c e"], ["a b c d"], samples=1)
    assert result.interval_a.low == result.interval_a.high == pytest.approx(100.0)


@pytest.mark.parametrize(("name", "metric"), [("bleu", BLEU()), ("chrf", CHRF())])
@pytest.mark.parametrize("other", [AS_GOOD, BAD])
def test_sacrebleu_says_the_same(
    monkeypatch: pytest.MonkeyPatch, name: MeasureName, metric: Metric, other: list[str]
) -> None:
    monkeypatch.setenv("SACREBLEU_SEED", "77")
    ours = compare(GOOD, other, REFERENCE, metric=name, samples=200, seed=77)
    systems: list[tuple[str, Sequence[str]]] = [("A", GOOD), ("B", other)]
    signatures, results = PairedTest(systems, {"metric": metric}, [REFERENCE], "bs", 200)()
    theirs_a, theirs_b = next(value for key, value in results.items() if key != "System")
    assert isinstance(theirs_a, Result) and isinstance(theirs_b, Result)
    for ours_mean, ours_interval, theirs in (
        (ours.interval_a.mean, ours.interval_a, theirs_a),
        (ours.interval_b.mean, ours.interval_b, theirs_b),
    ):
        assert ours_mean == pytest.approx(theirs.mean, abs=1e-3)
        assert (ours_interval.high - ours_interval.low) / 2 == pytest.approx(theirs.ci, abs=1e-3)
    assert [ours.a.value, ours.b.value] == pytest.approx([theirs_a.score, theirs_b.score])
    # Theirs are float32 sums, so that a near tie may fall on the other side.
    assert ours.p_value == pytest.approx(theirs_b.p_value, abs=2 / 201)
    assert ours.signature == str(next(iter(signatures.values())))


@pytest.mark.parametrize(("samples", "seed"), [(0, 1), (-5, 1), (10, -1)])
def test_unusable_draws_are_refused(samples: int, seed: int) -> None:
    with pytest.raises(ConfigError):
        compare(GOOD, BAD, REFERENCE, samples=samples, seed=seed)


def test_the_output_of_wrong_length_is_named() -> None:
    with pytest.raises(DataError, match="hypotheses B has 119 units and references has 120"):
        compare(GOOD, BAD[:-1], REFERENCE)
    with pytest.raises(DataError, match="one.txt has 119"):
        compare(GOOD[:-1], BAD, REFERENCE, hypothesis_name_a="one.txt")
