"""What holds for the paper's model holds with every departure: steps equal the whole, batches equal each alone."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from cached_steps import assert_steps_equal
from departing import CONFIG, EACH, FEWER, SERVED, build
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_models import random_ids
from tiny_runs import SOURCE_WORDS

from dragoman.model.cache import GROWTH
from dragoman.model.config import ModelConfig
from dragoman.model.packed import PackedModel, has_the_papers_parts
from dragoman.text.subwords import Subwords
from dragoman.training import explicit
from dragoman.translator import Translator
from dragoman.variants.parts import build as build_untrained
from dragoman.variants.parts import for_kernels

NAMES = sorted(EACH)
V = CONFIG.vocab_size


@pytest.mark.parametrize("name", NAMES)
def test_steps_with_reordered_beams_equal_the_whole(name):
    assert GROWTH < 20
    source_ids = random_ids(V, [4, 1], seed=5)
    assert_steps_equal(build(EACH[name]), source_ids, steps=20, seed=1, widths=range(2, 4), may_drop=False)


@settings(max_examples=40)
@given(
    name=st.sampled_from(NAMES),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    seed=st.integers(0, 2**20),
)
def test_sentences_drop_out_change_places_and_beams_grow_and_shrink(name, lengths, seed):
    model = build(EACH[name], seed=seed)
    source_ids = random_ids(V, lengths, seed=seed)
    assert_steps_equal(model, source_ids, steps=5, seed=seed, widths=range(1, 5), may_drop=True)


@settings(max_examples=40)
@given(
    name=st.sampled_from(NAMES),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    more=st.integers(0, 20),
    seed=st.integers(0, 2**20),
)
def test_a_sentence_among_others_and_padding_gives_what_it_gives_alone(name, lengths, more, seed):
    model = build(EACH[name], seed=seed)
    source_ids = random_ids(V, lengths, seed=seed)
    target_ids = random_ids(V, lengths[::-1], seed=seed + 1)
    got = model(F.pad(source_ids, (0, more)), F.pad(target_ids, (0, more)))
    for b, (S, T) in enumerate(zip(lengths, lengths[::-1], strict=True)):
        alone = model(source_ids[b : b + 1, :S], target_ids[b : b + 1, :T])
        torch.testing.assert_close(got[b, :T], alone[0], rtol=1e-11, atol=1e-11)


@settings(max_examples=20)
@given(name=st.sampled_from(NAMES), seed=st.integers(0, 2**20))
def test_packed_rows_give_what_each_sentence_gives_alone(name, seed):
    model = build(EACH[name], seed=seed)
    sources, targets = random_ids(V, [3, 2], seed=seed), random_ids(V, [2, 4], seed=seed + 1)
    packed = model(
        torch.cat([sources[0, :3], sources[1, :2]])[None],
        torch.cat([targets[0, :2], targets[1, :4]])[None],
        source_segments=torch.tensor([[1, 1, 1, 2, 2]]),
        target_segments=torch.tensor([[1, 1, 2, 2, 2, 2]]),
    )
    alone = [model(sources[:1, :3], targets[:1, :2]), model(sources[1:, :2], targets[1:, :4])]
    torch.testing.assert_close(packed[0], torch.cat([a[0] for a in alone]), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_the_future_is_not_seen(name):
    model = build(EACH[name])
    source_ids, target_ids = random_ids(V, [5], seed=1), random_ids(V, [6], seed=2)
    other = target_ids.clone()
    other[0, 3:] = 1 + other[0, 3:] % (V - 1)
    got, want = model(source_ids, other), model(source_ids, target_ids)
    torch.testing.assert_close(got[0, :3], want[0, :3], rtol=1e-12, atol=1e-12)
    assert (got[0, 3:] - want[0, 3:]).abs().max() > 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_another_model_than_the_papers(name):
    """A departure that computed what the paper's parts do would be none."""
    source_ids, target_ids = random_ids(V, [5, 3], seed=1), random_ids(V, [4, 4], seed=2)
    target_ids[:, 0] = Subwords.BOS_ID
    plain = build(())
    model = build(EACH[name])
    shared = dict(plain.named_parameters())
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key in shared and shared[key].shape == parameter.shape:
                parameter.copy_(shared[key])
    model.train()
    torch.manual_seed(1)
    assert (model(source_ids, target_ids) - plain(source_ids, target_ids)).abs().max() > 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_the_kernels_for_the_papers_model_step_aside(name):
    model = build(EACH[name], dtype=torch.float32)
    assert has_the_papers_parts(model) == for_kernels(EACH[name]) == (name in SERVED)
    if name in SERVED:
        return
    assert PackedModel.of(model) is None
    assert explicit.serves(model) is None


@pytest.mark.parametrize("name", NAMES)
def test_every_weight_has_a_gradient(name):
    model = build(EACH[name]).train()
    ids = random_ids(V, [5, 3], seed=1)
    torch.manual_seed(1)
    model(ids, ids).sin().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert (parameter.grad != 0).any(), key


# A model that has learned nothing: its choices are as near to ties as they come.
SIZES = {"N": 1, "d_model": 36, "d_ff": 50, "h": 4, "d_k": 10, "d_v": 7}


@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(6)), rows=st.sampled_from([2, 3, None]), seed=st.integers(0, 2**20))
@pytest.mark.parametrize("name", FEWER)
def test_a_translation_is_the_same_to_the_bit_whatever_is_beside_it(name, order, rows, seed, small_corpus):
    subwords = small_corpus.source_subwords
    model = build_untrained(ModelConfig(vocab_size=subwords.vocab_size, **SIZES), EACH[name], seed=7).eval()
    draw = random.Random(seed)
    units = [" ".join(draw.choices(SOURCE_WORDS, k=draw.choice((1, 2, 7, 14)))) for _ in order]
    alone = Translator(model, subwords, subwords, max_source_tokens=64, batch_rows=1)
    beside = Translator(model, subwords, subwords, max_source_tokens=64, batch_rows=rows)
    wanted = alone.translate(units, max_extra=0, n_best=2)
    assert beside.translate([units[k] for k in order], max_extra=0, n_best=2) == [wanted[k] for k in order]
    targets = [t.text for t in wanted]
    scores = alone.score(units, targets)
    assert beside.score([units[k] for k in order], [targets[k] for k in order]) == [scores[k] for k in order]
