"""I32: our BLEU and chrF are sacreBLEU's on the same units, whatever is in them; identical 100, empty 0."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from dragoman.scoring.bleu import bleu
from dragoman.scoring.chrf import chrf
from dragoman.scoring.exact_match import exact_match
from dragoman.scoring.paper_bleu import paper_bleu

_LATIN = "the cat sat on a mat . , ! - it's 5,300 E-Mail &amp; <b> \" ( )"
_OTHERS = "кошка على שלום हिन्दी 猫 ねこ 고양이 Straße café"
WORDS = (
    *_LATIN.split(" "),
    *_OTHERS.split(" "),
    "a\rb",
    "\u2028",
    "\u00a0",
    "\t",
    "\x85",
    "\x1c",
    "e\u0301",
    "\U0001f600",
)
sentences = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
# A unit holds anything but LF: that is where one ends.
units = st.one_of(sentences, st.just(""), st.just("  "), st.text(st.characters(exclude_characters="\n")))
rows = st.lists(st.tuples(units, units, units), min_size=1, max_size=8)
TOLERANCE = 0.01


@given(rows, st.sampled_from([1, 2]), st.sampled_from(["13a", "intl", "zh", "char", "none"]), st.booleans())
def test_bleu_is_sacrebleus(
    rows: list[tuple[str, str, str]], count: int, tokenizer: str, lowercase: bool
) -> None:
    hypotheses, *references = (list(column) for column in zip(*rows, strict=True))
    references = references[:count]
    metric = BLEU(tokenize=tokenizer, lowercase=lowercase, force=True)
    wanted = metric.corpus_score(hypotheses, references)
    score = bleu(hypotheses, references, tokenize=tokenizer, lowercase=lowercase)
    assert score.value == pytest.approx(wanted.score, abs=TOLERANCE)
    assert score.signature == str(metric.get_signature())
    assert score.segments == len(rows)
    assert score.blank_hypotheses == sum(not unit.strip() for unit in hypotheses)


@given(rows, st.sampled_from([1, 2]), st.sampled_from([0, 2]), st.booleans())
def test_chrf_is_sacrebleus(
    rows: list[tuple[str, str, str]], count: int, word_order: int, lowercase: bool
) -> None:
    hypotheses, *references = (list(column) for column in zip(*rows, strict=True))
    references = references[:count]
    metric = CHRF(word_order=word_order, lowercase=lowercase)
    wanted = metric.corpus_score(hypotheses, references)
    score = chrf(hypotheses, references, word_order=2 if word_order else 0, lowercase=lowercase)
    assert score.value == pytest.approx(wanted.score, abs=TOLERANCE)
    assert score.signature == str(metric.get_signature())
    assert score.name == wanted.name


@given(st.lists(units, max_size=6))
def test_identical_sides_give_100(side: list[str]) -> None:
    # BLEU needs one 4-gram to be anything but 0.
    side = [*side, "one two three four"]
    assert bleu(side, side).value == pytest.approx(100.0, abs=TOLERANCE)
    assert chrf(side, side).value == pytest.approx(100.0, abs=TOLERANCE)
    assert paper_bleu(side, side, target_language="de").value == pytest.approx(100.0, abs=TOLERANCE)
    assert exact_match(side, side).value == 100.0


@given(st.lists(units, min_size=1, max_size=6), st.sampled_from(["", " ", "\r", "\u3000"]))
def test_blank_hypotheses_give_0_and_none_is_dropped(references: list[str], blank: str) -> None:
    hypotheses = [blank] * len(references)
    for score in (
        bleu(hypotheses, references),
        chrf(hypotheses, references),
        paper_bleu(hypotheses, references, target_language="fr"),
    ):
        assert score.value == 0.0
        assert score.segments == score.blank_hypotheses == len(references)


@settings(max_examples=30)
@given(rows, st.randoms(use_true_random=False))
def test_scores_do_not_depend_on_the_order_of_pairs(
    rows: list[tuple[str, str, str]], shuffler: object
) -> None:
    shuffled = list(rows)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    before, after = ([list(column) for column in zip(*order, strict=True)] for order in (rows, shuffled))
    assert bleu(after[0], after[1]).value == pytest.approx(bleu(before[0], before[1]).value)
    assert chrf(after[0], after[1]).value == pytest.approx(chrf(before[0], before[1]).value)
