"""I20: what becomes of a unit depends on the unit alone, not on what it is translated with, nor in which order."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_runs import SOURCE_WORDS

from dragoman.model.config import ModelConfig
from dragoman.model.linear import FEWEST_ROWS, linear
from dragoman.model.transformer import Transformer
from dragoman.translator import Translation, Translator

# Sizes whose products BLAS computes in different ways; the last has sums of 2,048 terms.
SHAPES = {
    "tiny": {"N": 2, "d_model": 128, "d_ff": 256, "h": 4},
    "narrow": {"N": 1, "d_model": 36, "d_ff": 50, "h": 3},
    "wide": {"N": 1, "d_model": 256, "d_ff": 2048, "h": 4},
}
FEWEST_AT_ONCE = (1, 7, 64, None)
MAX_EXTRA = 0  # a model that has learned nothing goes on to the limit


# Two threads beside any other load wait for each other: such tests run by themselves.
@pytest.fixture(params=[1, pytest.param(2, marks=pytest.mark.alone)], ids=lambda n: f"{n} threads")
def threads(request):
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(1)


@pytest.fixture(
    scope="module", params=[(name, engine) for engine in ("auto", "exact") for name in SHAPES], ids="-".join
)
def translator(request, small_corpus) -> Translator:
    """A model that has learned nothing: its choices are as near to ties as they come."""
    subwords, (name, engine) = small_corpus.source_subwords, request.param
    config = ModelConfig(vocab_size=subwords.vocab_size, **SHAPES[name])
    model = Transformer(config, seed=7).eval()
    return Translator(model, subwords, subwords, max_source_tokens=64, engine=engine)


def units(count: int, *, seed: int) -> list[str]:
    """Of one to twenty words: alone, among neighbors of their kind, and among long ones."""
    draw = random.Random(seed)
    lengths = [draw.choice((1, 2, 4, 7, 20)) for _ in range(count)]
    return [" ".join(draw.choice(SOURCE_WORDS) for _ in range(length)) for length in lengths]


UNITS = [*units(14, seed=1), "", "  ", "zero", "zero"]


def found(translator: Translator, texts: list[str], **options) -> list[Translation]:
    return translator.translate(texts, max_extra=MAX_EXTRA, **options)


@pytest.fixture(scope="module")
def alone(translator) -> dict[str, Translation]:
    """Each unit translated by itself, by one thread."""
    torch.set_num_threads(1)
    return {unit: found(translator, [unit], n_best=2)[0] for unit in set(UNITS)}


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    order=st.permutations(range(len(UNITS))),
    count=st.integers(1, len(UNITS)),
    rows=st.sampled_from(FEWEST_AT_ONCE),
)
def test_any_batch_any_neighbors_any_order(translator, alone, order, count, rows):
    texts = [UNITS[k] for k in order[:count]]
    for translation in found(replace(translator, batch_rows=rows), texts, n_best=2):
        # Equal in every field: texts, pieces, and scores to the last bit.
        assert translation == alone[translation.source]


def test_with_any_number_of_threads_as_long_as_it_is_the_same(translator, threads):
    whole = found(translator, UNITS)
    for rows in FEWEST_AT_ONCE:
        assert found(replace(translator, batch_rows=rows), UNITS) == whole, rows
    assert found(translator, UNITS[::-1])[::-1] == whole
    assert found(translator, sorted(UNITS)) == [
        t for _, t in sorted(zip(UNITS, whole, strict=True), key=lambda p: p[0])
    ]


def test_greedy_and_sampled_too(translator):
    whole = found(translator, UNITS, beam_size=1)
    assert found(replace(translator, batch_rows=3), UNITS, beam_size=1) == whole
    draws = translator.sample(UNITS, seed=3, max_extra=MAX_EXTRA)
    assert replace(translator, batch_rows=3).sample(UNITS, seed=3, max_extra=MAX_EXTRA) == draws


@pytest.mark.parametrize(
    ("d_in", "d_out"),
    [
        (128, 384),
        (128, 8000),
        (36, 50),
        (256, 128),
        (512, 512),
        (512, 2048),
        (2048, 512),
        (1024, 4096),
        (4096, 1024),
        (5000, 3),
    ],
)
def test_a_row_of_a_product_is_the_same_among_any_number_of_rows(threads, d_in, d_out):
    generator = torch.Generator().manual_seed(d_in)
    weight, bias = (torch.randn(shape, generator=generator) for shape in ((d_out, d_in), (d_out,)))
    x = torch.randn(300, d_in, generator=generator)
    with torch.no_grad():
        whole = linear(x, weight, bias)
        torch.testing.assert_close(whole, F.linear(x, weight, bias), rtol=1e-4, atol=1e-4)
        for rows in [*range(1, 2 * FEWEST_ROWS), 40, 64, 100, 129, 200, 257]:
            assert torch.equal(linear(x[:rows], weight, bias), whole[:rows]), rows
        assert torch.equal(linear(x.flip(0), weight), linear(x, weight).flip(0))


@pytest.mark.parametrize("shape", [(0, 4), (2, 0, 4), (4,), (1, 1, 4), (2, 3, 5, 4)])
def test_products_of_any_shape(shape):
    x, weight = torch.randn(shape), torch.randn(3, 4)
    with torch.no_grad():
        assert torch.equal(linear(x, weight), x @ weight.T) or torch.allclose(linear(x, weight), x @ weight.T)
        assert linear(x, weight).shape == (*shape[:-1], 3)


def test_a_gradient_is_that_of_the_plain_product():
    x, weight = torch.randn(3, 2000, requires_grad=True), torch.randn(4, 2000, requires_grad=True)
    assert torch.equal(linear(x, weight), F.linear(x, weight))
