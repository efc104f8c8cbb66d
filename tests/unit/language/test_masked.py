"""A masked language model at work: hidden numbers found from what stands around them; lines without marks left alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_runs import counting

from dragoman.errors import ConfigError
from dragoman.language.masked import MARK, MaskedLanguageModel
from dragoman.text.subwords import Subwords
from dragoman.variants.encoder_only import MASK_ID


@pytest.fixture(scope="module")
def model(masked_run) -> MaskedLanguageModel:
    return MaskedLanguageModel.load(masked_run)


def test_what_is_hidden_is_found(model):
    lines = [
        "three four <mask> six seven",
        "<mask> two three four",
        "nine ten eleven <mask>",
        "one two three",
    ]
    found = model.fill(lines)
    assert [one.source for one in found] == lines
    assert found[0].text == "three four five six seven"
    assert found[1].text == "one two three four"
    assert found[2].text == "nine ten eleven twelve"
    assert found[3].text == "one two three"
    assert [len(one.guesses) for one in found] == [1, 1, 1, 0]
    best = found[0].guesses[0]
    assert best[0].text == found[0].text
    assert best[0].piece.replace("\u2581", " ").strip() == "five"
    assert [guess.probability for guess in best] == sorted((g.probability for g in best), reverse=True)
    assert 0.3 < best[0].probability <= 1.0
    assert len({guess.piece for guess in best}) == 5


def test_probabilities_are_the_models_own(model):
    [one] = model.fill(["three four <mask> six seven"], n_best=3)
    left, right = model.subwords.encode("three four"), model.subwords.encode_inside(" six seven")
    row = torch.tensor([[*left, MASK_ID, *right, Subwords.EOS_ID]])
    p = model.model(row).softmax(dim=-1)[0, len(left)].detach()
    for guess in one.guesses[0]:
        [token] = model.subwords.ids_of([guess.piece])
        assert guess.probability == pytest.approx(float(p[token]), abs=1e-5)


def test_several_marks_are_filled_each_by_itself(model):
    [one] = model.fill(["three <mask> five <mask> seven eight"], n_best=2)
    assert one.text == "three four five six seven eight"
    assert [len(guesses) for guesses in one.guesses] == [2, 2]
    first, second = one.guesses
    assert first[0].text == second[0].text == one.text
    assert first[1].text != one.text
    assert first[1].text.split()[2:] == one.text.split()[2:]


def test_marks_beside_each_other_and_another_mark(model):
    [one] = model.fill(["three four [?] [?] seven"], mark="[?]")
    assert len(one.guesses) == 2
    [same] = model.fill(["three four [?][?] seven"], mark="[?]")
    assert same.guesses == one.guesses, "a space before a mark belongs to what it stands for"


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.text(max_size=12).filter(lambda t: MARK not in t), min_size=1, max_size=4))
def test_nothing_of_a_line_but_its_marks_is_changed(model, parts):
    line = MARK.join(parts)
    ids = model._with_marks(line, MARK)
    assert ids.count(MASK_ID) == line.count(MARK)
    if MARK in line:
        shown = [
            model.subwords.normalize(part.removesuffix(" ") if k + 1 < len(line.split(MARK)) else part)
            for k, part in enumerate(line.split(MARK))
        ]
        assert model.subwords.decode([token for token in ids if token != MASK_ID]) == "".join(shown)
    [filled] = model.fill([line])
    assert filled.source == line
    assert "\n" not in filled.text or "\n" in line


def test_a_guess_is_always_text(model):
    [one] = model.fill(["three <mask> five"], n_best=model.subwords.vocab_size - len(model._no_guesses()))
    tokens = set(model.subwords.ids_of([guess.piece for guess in one.guesses[0]]))
    assert not tokens & {*model.subwords.forbidden_ids, Subwords.EOS_ID, Subwords.PAD_ID, MASK_ID}


def test_how_well_words_are_known_one_hidden_at_a_time(model):
    texts = [*counting(4, seed=5), ""]
    found = model.known(texts)
    for text, known in zip(texts, found, strict=True):
        ids = model.subwords.encode(text)
        total = right = 0
        for place, token in enumerate(ids):
            row = torch.tensor([[*ids[:place], MASK_ID, *ids[place + 1 :], Subwords.EOS_ID]])
            log_p = model.model(row).log_softmax(dim=-1)[0, place].detach()
            total += float(log_p[token])
            right += int(log_p.argmax()) == token
        assert known.log_probability == pytest.approx(total, abs=1e-3)
        assert (known.right, known.tokens) == (right, len(ids))
    assert sum(known.right for known in found) > 0.7 * sum(known.tokens for known in found)


def test_a_line_is_filled_alike_whatever_is_beside_it(model):
    lines = [
        "three <mask> five",
        "<mask>",
        "no mark",
        "one two <mask> four five six seven",
        "nine <mask> eleven",
    ]
    alone = [model.fill([line])[0] for line in lines]
    assert model.fill(lines[::-1]) == alone[::-1]
    texts = counting(6, seed=9)
    assert model.known(texts) == [model.known([text])[0] for text in texts]


def test_no_lines(model):
    assert model.fill([]) == []
    assert model.known([]) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"n_best": 0}, "n_best is 0"),
        ({"n_best": 10**6}, "n_best is 1000000"),
        ({"mark": ""}, "the mark is empty"),
    ],
)
def test_what_cannot_be_done_is_refused(model, arguments, said):
    with pytest.raises(ConfigError, match=said) as caught:
        model.fill(["three <mask>"], **arguments)
    assert caught.value.cure


def test_one_text_is_no_list_of_lines(model):
    with pytest.raises(ConfigError, match="one text"):
        model.fill("three <mask>")


def test_a_language_model_is_none(lm_run):
    with pytest.raises(ConfigError, match="no masked language model") as caught:
        MaskedLanguageModel.load(lm_run)
    assert "dragoman generate" in caught.value.cure
