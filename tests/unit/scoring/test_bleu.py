"""BLEU by sacreBLEU: its numbers, its tokenizers, its refusals."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU

from dragoman.errors import ConfigError, DataError, MissingDependency
from dragoman.scoring import bleu as bleu_module
from dragoman.scoring.bleu import TOKENIZERS, TokenizerChoice, bleu, bleu_metric, choose_tokenizer

ReadUnits = Callable[[str], list[str]]

HYPOTHESES = ["the cat sat\rhere", "no\u2028break here", "", "last line"]
REFERENCES = ["the cat sat here", "no break here", "empty one", ""]


def test_blank_lines_and_separators_are_content() -> None:
    score = bleu(HYPOTHESES, REFERENCES)
    assert score.value == pytest.approx(89.7261, abs=0.01)
    assert score.signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert score.counts() == "segments 4, blank hypotheses 1, blank references 1"


def test_all_empty_hypotheses_score_zero_and_stay() -> None:
    score = bleu([""] * 4, REFERENCES)
    assert score.value == 0.0
    assert (score.segments, score.blank_hypotheses) == (4, 4)
    assert "no hypothesis is four tokens long: BLEU is 0 by definition" in score.notices


def test_identical_sides_give_100() -> None:
    assert bleu(REFERENCES, REFERENCES).value == pytest.approx(100.0)


def test_three_lines_against_four_are_refused() -> None:
    with pytest.raises(DataError, match="has 3 units and references has 4"):
        bleu(["a", "b", "c"], REFERENCES)


def test_details_hold_the_parts() -> None:
    details = bleu(["the cat sat on the mat"], ["the cat sat on a mat"]).details
    assert details["counts"] == [5, 3, 2, 1]
    assert details["totals"] == [6, 5, 4, 3]
    assert details["precisions"] == pytest.approx([500 / 6, 60.0, 50.0, 100 / 3])
    assert (details["hypothesis_length"], details["reference_length"]) == (6, 6)
    assert details["brevity_penalty"] == 1.0


def test_several_references_count_the_best() -> None:
    hypotheses = ["the cat sat on the mat"]
    one, two = ["a dog stood on the mat"], ["the cat sat on the rug"]
    both = bleu(hypotheses, [one, two])
    assert both.value > max(bleu(hypotheses, one).value, bleu(hypotheses, two).value)
    assert both.signature.startswith("nrefs:2|")


def test_lowercase_is_in_the_signature() -> None:
    score = bleu(["THE CAT SAT HERE"], ["the cat sat here"], lowercase=True)
    assert score.value == pytest.approx(100.0)
    assert "case:lc" in score.signature


@pytest.mark.parametrize(
    ("language", "name"),
    [
        (None, "13a"),
        ("de", "13a"),
        ("zh", "zh"),
        ("zh-Hant", "zh"),
        ("ja", "ja-mecab"),
        ("jpn", "ja-mecab"),
        ("ko", "ko-mecab"),
    ],
)
def test_the_target_language_chooses_the_tokenizer(language: str | None, name: str) -> None:
    assert choose_tokenizer(language, None).name == name


def test_a_named_tokenizer_wins() -> None:
    assert choose_tokenizer("zh", "char") == TokenizerChoice("char", "asked for by name")


def test_the_choice_is_said_aloud() -> None:
    score = bleu(["我喜欢猫和狗。"], ["我喜欢猫和狗。"], target_language="zh")
    assert score.value == pytest.approx(100.0)
    assert "tok:zh" in score.signature
    assert score.notices == ("BLEU tokenizer: zh (target language zh)",)
    assert (score.details["tokenizer"], score.details["tokenizer_reason"]) == ("zh", "target language zh")


def test_chinese_is_zero_without_its_tokenizer() -> None:
    hypotheses, references = ["我喜欢猫和狗"], ["我们喜欢猫和狗"]
    assert bleu(hypotheses, references, target_language="de").value == 0.0
    assert bleu(hypotheses, references, target_language="zh").value > 50.0


@pytest.mark.parametrize("name", ["spm", "flores200", "13b", ""])
def test_unknown_and_downloading_tokenizers_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="no BLEU tokenizer named"):
        bleu(["a"], ["a"], tokenize=name)


def test_all_tokenizers_offered_are_sacrebleus() -> None:
    assert set(TOKENIZERS) <= set(BLEU.TOKENIZERS)


@pytest.mark.parametrize(("language", "extra"), [("ja", "sacrebleu[ja]"), ("ko", "sacrebleu[ko]")])
def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, language: str, extra: str) -> None:
    def refuse(**_: object) -> None:
        raise RuntimeError("extra dependencies")

    monkeypatch.setattr(bleu_module, "BLEU", refuse)
    with pytest.raises(MissingDependency) as caught:
        bleu(["a"], ["a"], target_language=language)
    assert f'pip install "{extra}"' in str(caught.value)


@pytest.mark.parametrize(
    ("language", "text"), [("ja", "私は猫と犬が好きです。"), ("ko", "나는 고양이와 개를 좋아한다.")]
)
def test_japanese_and_korean_score_or_name_the_extra(language: str, text: str) -> None:
    try:
        score = bleu([text], [text], target_language=language)
    except MissingDependency as missing:
        assert missing.cure is not None and f"sacrebleu[{language}]" in missing.cure
    else:
        assert score.value == pytest.approx(100.0)
        assert f"tok:{language}-mecab" in score.signature


def test_other_failures_are_not_taken_for_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(bleu_module, "BLEU", refuse)
    with pytest.raises(RuntimeError, match="something else"):
        bleu_metric(TokenizerChoice("13a", ""), lowercase=False)


def test_tokenized_hypotheses_are_remarked_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        score = bleu(["it is a test ."] * 100, ["it is a test."] * 100)
    assert any("100 hypotheses end in a separate full stop" in notice for notice in score.notices)
    assert not caplog.records
    assert len(bleu(["it is a test ."] * 99, ["it is a test."] * 99).notices) == 1


@pytest.mark.parametrize(
    ("system", "reference", "language", "value"),
    [
        ("en-de.wmt13", "newstest2013.en-de.de.gz", "de", 28.05),
        ("en-de.wmt14", "newstest2014-filtered2737.en-de.de.gz", "de", 29.90),
        ("en-fr.wmt13", "newstest2013.en-fr.fr.gz", "fr", 33.46),
        ("en-fr.wmt14", "newstest2014-sacrebleu-order.en-fr.fr.gz", "fr", 39.65),
    ],
)
def test_real_outputs_have_their_known_scores(
    wmt: ReadUnits, system: str, reference: str, language: str, value: float
) -> None:
    hypotheses = wmt(f"systems/{system}.bergamot-tiny.{language}.gz")
    score = bleu(hypotheses, wmt(reference), target_language=language)
    assert score.value == pytest.approx(value, abs=0.01)
    assert score.segments == {"wmt13": 3000, "wmt14": 2737 if language == "de" else 3003}[system[6:]]
