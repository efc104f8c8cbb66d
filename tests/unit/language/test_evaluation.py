"""Scores of models of one text, from what they find of each line."""

from __future__ import annotations

import math

import pytest
from tiny_runs import counting, tiny_facts, write_random_bundle

from dragoman.errors import ConfigError, DataError
from dragoman.language.evaluation import evaluate_text
from dragoman.language.masked import MaskedLanguageModel
from dragoman.language.model import LanguageModel

TEXTS = [*counting(12, seed=3), "", "three  four"]


def test_a_language_model(lm_run):
    model = LanguageModel.load(lm_run)
    result = evaluate_text(model, TEXTS)
    nats = -sum(model.log_probabilities(TEXTS))
    tokens = sum(len(model.subwords.encode(text)) + 1 for text in TEXTS)
    words = sum(len(text.split()) + 1 for text in TEXTS)
    size = sum(len(text.encode()) + 1 for text in TEXTS)
    scores = {score.name: score for score in result.scores}
    assert scores["perplexity a subword"].value == pytest.approx(math.exp(nats / tokens), rel=1e-6)
    assert scores["perplexity a word"].value == pytest.approx(math.exp(nats / words), rel=1e-6)
    assert scores["bits a byte"].value == pytest.approx(nats / size / math.log(2), rel=1e-6)
    for score in scores.values():
        assert "|departures:" in score.signature
        assert "decoder_only of Liu et al. 2018" in score.signature
        assert score.segments == len(TEXTS)
        assert score.blank_references == 1
    assert model.subwords.digest[:8] in scores["perplexity a subword"].signature
    assert result.standing == model.standing


def test_a_masked_one_from_its_directory(masked_run):
    model, told = MaskedLanguageModel.load(masked_run), []
    result = evaluate_text(masked_run, TEXTS, on_batch=told.append)
    known = model.known(TEXTS)
    tokens = sum(one.tokens for one in known)
    scores = {score.name: score for score in result.scores}
    want = math.exp(-sum(one.log_probability for one in known) / tokens)
    assert scores["pseudo-perplexity a subword"].value == pytest.approx(want, rel=1e-6)
    assert scores["hidden subwords guessed"].value == pytest.approx(
        100.0 * sum(one.right for one in known) / tokens
    )
    assert told[-1] == len(TEXTS)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_the_number_format_is_in_the_signature(lm_run, precision):
    signature = evaluate_text(lm_run, ["one two"], precision=precision).scores[0].signature
    assert ("products:" in signature) is (precision != "fp32")
    assert precision == "fp32" or signature.endswith(f"|products:{precision}")


def test_what_has_no_such_score(one_text, lm_run, tmp_path):
    translator = write_random_bundle(tmp_path / "m", tiny_facts(one_text))
    with pytest.raises(ConfigError, match="this model translates") as caught:
        evaluate_text(translator, TEXTS)
    assert "MODEL SOURCE REFERENCE" in caught.value.cure
    with pytest.raises(DataError, match="nothing to score"):
        evaluate_text(lm_run, [])
    with pytest.raises(ConfigError, match="one text, not a list"):
        evaluate_text(lm_run, "three four")
