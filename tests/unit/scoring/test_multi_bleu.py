"""The arithmetic of multi-bleu: by hand, and against a second, literal transcription.

Paper: 6.1
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.scoring.multi_bleu import STATISTICS, bleu_of_statistics, sentence_statistics, tokens

words = st.lists(st.sampled_from("abc"), max_size=9)
pairs = st.tuples(words, st.lists(words, min_size=2, max_size=2))


def test_statistics_by_hand() -> None:
    row = sentence_statistics(tokens("the the the cat"), [tokens("the cat sat")])
    assert row == [4, 3, 2, 1, 0, 0, 4, 3, 2, 1]
    assert len(row) == STATISTICS


def test_counts_are_clipped_by_the_best_single_reference() -> None:
    row = sentence_statistics(tokens("a a a b"), [tokens("a a c"), tokens("a b b")])
    assert row[2] == 3  # two a's of the first, one b of the second
    assert row[3] == 2  # "a a" of the first, once, and "a b" of the second


@pytest.mark.parametrize(
    ("hypothesis", "references", "closest"),
    [(5, (3, 7), 3), (5, (7, 3), 3), (5, (8, 4), 4), (2, (9, 5), 5), (0, (1, 2), 1), (3, (3,), 3)],
)
def test_closest_length_takes_the_shorter_of_two(
    hypothesis: int, references: tuple[int, ...], closest: int
) -> None:
    assert sentence_statistics(["x"] * hypothesis, [["y"] * length for length in references])[1] == closest


def test_bleu_by_hand() -> None:
    result = bleu_of_statistics([6, 8, 5, 3, 2, 1, 6, 5, 4, 3])
    assert result.precisions == pytest.approx((500 / 6, 60.0, 50.0, 100 / 3))
    assert result.brevity_penalty == pytest.approx(math.exp(1 - 8 / 6))
    mean = (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    assert result.value == pytest.approx(100 * math.exp(1 - 8 / 6) * mean)
    assert (result.hypothesis_length, result.reference_length) == (6, 8)


def test_longer_hypotheses_have_no_bonus() -> None:
    assert bleu_of_statistics([8, 6, 5, 3, 2, 1, 6, 5, 4, 3]).brevity_penalty == 1.0


@pytest.mark.parametrize(
    "statistics",
    [
        [0, 5, 0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [5, 0, 0, 0, 0, 0, 5, 4, 3, 2],
        [5, 5, 5, 4, 3, 0, 5, 4, 3, 2],
        [3, 3, 3, 2, 1, 0, 3, 2, 1, 0],
    ],
)
def test_nothing_is_smoothed(statistics: list[float]) -> None:
    assert bleu_of_statistics(statistics).value == 0.0


def test_tokens_part_at_ascii_space_only() -> None:
    assert tokens(" a  b\tc\rd ") == ("a", "b", "c", "d")
    assert tokens("a\u00a0b c\u2028d") == ("a\u00a0b", "c\u2028d")
    assert tokens(" ") == ()


def _literal_multi_bleu(corpus: list[tuple[list[str], list[list[str]]]]) -> float:
    """Compute BLEU as multi-bleu does, one running total a time, with no code of ours."""
    correct, total = [0] * 5, [0] * 5
    length_hypothesis = length_reference = 0
    for hypothesis, references in corpus:
        closest_gap, closest = 9999, 9999
        allowed: dict[str, int] = {}
        for reference in references:
            gap = abs(len(hypothesis) - len(reference))
            if gap < closest_gap:
                closest_gap, closest = gap, len(reference)
            elif gap == closest_gap and len(reference) < closest:
                closest = len(reference)
            seen: dict[str, int] = {}
            for n in range(1, 5):
                for start in range(len(reference) - n + 1):
                    key = f"{n} " + " ".join(reference[start : start + n])
                    seen[key] = seen.get(key, 0) + 1
            for key, count in seen.items():
                allowed[key] = max(allowed.get(key, 0), count)
        length_hypothesis += len(hypothesis)
        length_reference += closest
        for n in range(1, 5):
            for start in range(len(hypothesis) - n + 1):
                key = f"{n} " + " ".join(hypothesis[start : start + n])
                total[n] += 1
                if allowed.get(key, 0) > 0:
                    allowed[key] -= 1
                    correct[n] += 1
    if not length_hypothesis or not all(correct[1:]):
        return 0.0
    penalty = 1.0
    if length_hypothesis < length_reference:
        penalty = math.exp(1 - length_reference / length_hypothesis)
    logs = [math.log(correct[n] / total[n]) for n in range(1, 5)]
    return 100 * penalty * math.exp(sum(logs) / 4)


@given(st.lists(pairs, min_size=1, max_size=6))
def test_equals_the_literal_transcription(corpus: list[tuple[list[str], list[list[str]]]]) -> None:
    rows = [sentence_statistics(hypothesis, references) for hypothesis, references in corpus]
    ours = bleu_of_statistics([sum(column) for column in zip(*rows, strict=True)])
    assert ours.value == pytest.approx(_literal_multi_bleu(corpus))


@given(st.lists(words, min_size=1, max_size=5).filter(lambda units: any(len(unit) > 3 for unit in units)))
def test_identical_sides_give_100(units: list[list[str]]) -> None:
    rows = [sentence_statistics(unit, [unit]) for unit in units]
    assert bleu_of_statistics([sum(column) for column in zip(*rows, strict=True)]).value == pytest.approx(100)
