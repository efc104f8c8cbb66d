"""A language model at work: prompts continued as counting goes on, drawn alike, each as if it were alone."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import pytest
import torch
from departing import ONE_STACK
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_runs import SOURCE_WORDS, counting, tiny_facts, write_random_bundle

from dragoman.errors import CheckpointError, ConfigError
from dragoman.language.model import LanguageModel
from dragoman.model.config import ModelConfig
from dragoman.search.length import length_penalty
from dragoman.text.subwords import Subwords
from dragoman.variants.parts import build
from dragoman.variants.search_rules import PowerPenalty, search_rules

PROMPTS = ["three four", "", "twelve zero one", "nine", "  ", "five six seven eight"]


@pytest.fixture(scope="module")
def model(lm_run) -> LanguageModel:
    return LanguageModel.load(lm_run)


def counts_on(text: str) -> bool:
    words = text.split()
    numbers = [SOURCE_WORDS.index(word) for word in words]
    return all((a + 1) % len(SOURCE_WORDS) == b for a, b in itertools.pairwise(numbers))


@pytest.mark.parametrize("beam_size", [1, 3])
def test_it_goes_on_counting(model, beam_size):
    found = model.generate(PROMPTS, beam_size=beam_size)
    assert [one.prompt for one in found] == PROMPTS
    for prompt, one in zip(PROMPTS, found, strict=True):
        assert one.text.startswith(prompt.strip(" ") if not prompt.strip() else prompt)
        assert counts_on(one.text), one
        assert len(one.text.split()) >= max(4, len(prompt.split()))
        assert not one.truncated


def test_a_score_is_what_the_text_itself_scores(model):
    """log P of the whole text is that of the prompt's tokens and of what was put after it."""
    for one in model.generate(PROMPTS, beam_size=2):
        ids = model.subwords.encode(one.prompt) if one.prompt.strip() else []
        added = model.subwords.ids_of(one.pieces)
        whole = model.log_probabilities_of_ids([[*ids, *added]])[0]
        rows = torch.tensor([[Subwords.BOS_ID, *ids]])
        log_p = model.model(rows).log_softmax(dim=-1)[0].detach()
        before = sum(float(log_p[place, token]) for place, token in enumerate(ids))
        assert one.log_probability == pytest.approx(whole - before, abs=1e-3)
        n = len(added) + 1
        assert one.score == pytest.approx(one.log_probability / length_penalty(n, model.search.alpha))


def test_the_penalty_is_that_of_the_models_recipe(model):
    other = replace(model, rules=search_rules((PowerPenalty(),)))
    found = {1.0: other.generate(PROMPTS, beam_size=2, alpha=1.0), 0.6: other.sample(PROMPTS, seed=1)}
    assert model.search.alpha == 0.6
    for alpha, continuations in found.items():
        for one in continuations:
            n = len(one.pieces) + (not one.truncated)
            assert one.score == pytest.approx(one.log_probability / n**alpha)


def test_draws_are_the_same_for_the_same_seed_and_number(model):
    first = model.sample(PROMPTS, seed=3, n=2)
    assert model.sample(PROMPTS, seed=3, n=2) == first
    assert model.sample(PROMPTS[2:], seed=3, n=2, first=2) == first[2:]
    assert model.sample(PROMPTS, seed=4, n=2) != first
    assert [one.text for one in model.sample(PROMPTS, seed=3)] == [one.text for one in first]
    greedy = [one.text for one in model.generate(PROMPTS)]
    assert [one.text for one in model.sample(PROMPTS, seed=5, top_k=1)] == greedy


def test_draws_follow_the_distribution(model):
    """The first word of a text begun from nothing: any number, about as often."""
    drawn = model.sample([""], seed=1, n=600)[0]
    texts = [drawn.text, *(other.text for other in drawn.alternatives)]
    times = [sum(text.split()[:1] == [word] for text in texts) for word in SOURCE_WORDS]
    assert sum(times) > 540
    assert min(times) > 5


def test_the_limit_cuts_and_says_so(model):
    [one] = model.generate(["three four"], max_tokens=1)
    assert one.truncated
    assert len(one.pieces) == 1
    [none] = model.sample(["three four"], seed=1, max_tokens=2, n=1)
    assert len(none.pieces) <= 2


def test_n_best_are_distinct_and_in_order(model):
    [one] = model.generate(["three"], beam_size=4, n_best=4)
    texts = [one.pieces, *(other.pieces for other in one.alternatives)]
    assert len(set(texts)) == 4
    scores = [one.score, *(other.score for other in one.alternatives)]
    assert scores == sorted(scores, reverse=True)


def test_a_prompt_comes_back_as_it_was_given(model):
    prompts = ["Zażółć gęślą", " three  four", "a\u2581b", "tab\there", "\U0001f600"]
    for prompt, one in zip(prompts, model.generate(prompts, max_tokens=3), strict=True):
        assert one.text.startswith(prompt)
        assert "\n" not in one.text.removeprefix(prompt)


def test_a_text_that_counts_is_more_probable(model):
    texts = counting(5, seed=7)
    shuffled = []
    for text in texts:
        words = text.split()
        random.Random(1).shuffle(words)
        shuffled.append(" ".join(words))
    right, wrong = model.log_probabilities(texts), model.log_probabilities(shuffled)
    assert all(a > b + 3.0 for a, b in zip(right, wrong, strict=True))


def test_log_probabilities_are_those_of_the_model_token_by_token(model):
    text = "four five six"
    ids = model.subwords.encode(text)
    log_p = model.model(torch.tensor([[Subwords.BOS_ID, *ids]])).log_softmax(dim=-1)[0].detach()
    want = sum(float(log_p[place, token]) for place, token in enumerate([*ids, Subwords.EOS_ID]))
    assert model.log_probabilities([text])[0] == pytest.approx(want, abs=1e-4)
    assert model.log_probabilities([]) == []
    assert math.isfinite(model.log_probabilities([""])[0])


# A model that has learned nothing: its choices are as near to ties as they come.
SIZES = {"N": 1, "d_model": 36, "d_ff": 50, "h": 4, "d_k": 10, "d_v": 7}


@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(6)), seed=st.integers(0, 2**20))
@pytest.mark.parametrize("name", ["decoder_only", "decoder_only of today"])
def test_a_continuation_is_the_same_to_the_bit_whatever_is_beside_it(name, order, seed, one_text):
    subwords = one_text.source_subwords
    made = build(ModelConfig(vocab_size=subwords.vocab_size, **SIZES), ONE_STACK[name], seed=7).eval()
    model = LanguageModel(made, subwords, max_tokens=6)
    draw = random.Random(seed)
    prompts = [" ".join(draw.choices(SOURCE_WORDS, k=draw.choice((0, 1, 2, 2, 5)))) for _ in order]
    alone = [model.generate([prompt], beam_size=2, n_best=2)[0] for prompt in prompts]
    assert model.generate([prompts[k] for k in order], beam_size=2, n_best=2) == [alone[k] for k in order]
    texts = [one.text for one in alone]
    scores = [model.log_probabilities([text])[0] for text in texts]
    assert model.log_probabilities([texts[k] for k in order]) == [scores[k] for k in order]


def test_no_prompts_no_texts(model):
    assert model.generate([]) == model.sample([], seed=1) == []


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda model: model.generate("three"), "one text, not a list"),
        (lambda model: model.generate(["three"], max_tokens=0), "max_tokens is 0"),
        (lambda model: model.generate(["three"], beam_size=2, n_best=3), "n_best 3 is above beam_size 2"),
        (lambda model: model.sample(["three"], seed=-1), "seed"),
        (lambda model: model.sample(["three"], seed=1, temperature=0.0), "temperature"),
        (lambda model: model.log_probabilities([3]), "not a text"),
    ],
)
def test_what_cannot_be_done_is_refused(model, call, said):
    with pytest.raises(ConfigError, match=said):
        call(model)


def test_other_models_are_refused_and_told_apart(one_text, masked_run, tmp_path):
    with pytest.raises(ConfigError, match="no language model") as caught:
        LanguageModel.load(masked_run)
    assert "dragoman fill" in caught.value.cure
    translator = write_random_bundle(tmp_path / "m", tiny_facts(one_text))
    with pytest.raises(ConfigError, match="no language model") as caught:
        LanguageModel.load(translator)
    assert "dragoman translate" in caught.value.cure
    with pytest.raises(CheckpointError):
        LanguageModel.load(tmp_path / "nothing")


def test_in_bf16(lm_run):
    model = LanguageModel.load(lm_run, precision="bf16")
    assert model.model.dtype == torch.bfloat16
    assert counts_on(model.generate(["three four"])[0].text)
