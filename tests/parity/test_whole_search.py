"""The search in C++ finds what the search in Python finds over the same step function: tokens, order, scores, ends.

Paper: 6.1
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from wide_models import FORMATS, V, compiled, wide_model

from dragoman.errors import ConfigError, DragomanError
from dragoman.model.incremental_native import NativeDecoder
from dragoman.model.packed import PackedModel
from dragoman.model.transformer import Transformer
from dragoman.search.beam import beam_search
from dragoman.search.choices import Among
from dragoman.search.length import length_penalty
from dragoman.search.options import SearchOptions
from dragoman.search.step import Hypothesis
from dragoman.search.task import SearchTask
from dragoman.variants.power_penalty import power_penalty
from dragoman.whole_search import search_all

pytestmark = pytest.mark.skipif(compiled is None, reason="no C++ compiler here: PyTorch does the same steps")

BOS, EOS = 2, 3


def drawn_sources(lengths: list[int], *, seed: int) -> list[list[int]]:
    draw = torch.Generator().manual_seed(seed)
    return [[*torch.randint(4, 50, (n - 1,), generator=draw).tolist(), EOS] for n in lengths]


def by_steps(
    packed: PackedModel, sources: list[list[int]], options: SearchOptions, forbidden=(0, 1, 2), choices=None
):
    rows = torch.zeros(len(sources), max(map(len, sources)), dtype=torch.int64)
    for row, source in zip(rows, sources, strict=True):
        row[: len(source)] = torch.tensor(source)
    step = NativeDecoder(packed, rows)
    return beam_search(
        step if choices is None else Among(step, choices, V),
        source_lengths=[len(source) for source in sources],
        options=options,
        bos_id=BOS,
        eos_id=EOS,
        forbidden_ids=forbidden,
    )


def whole(
    packed: PackedModel, sources: list[list[int]], options: SearchOptions, forbidden=(0, 1, 2), **kwargs
):
    lengths = [len(source) for source in sources]
    task = SearchTask.of(
        lengths, options=options, bos_id=BOS, eos_id=EOS, forbidden_ids=forbidden, device="cpu"
    )
    return search_all(packed, sources, task, **kwargs)


def ending_model(**sizes: object) -> Transformer:
    """Drawn wide, and with an end of sentence likely enough that some hypotheses end and some are cut."""
    model = wide_model(**sizes)
    with torch.no_grad():
        model.decoder_layers[-1].residual_3.norm.bias.add_(0.05 * model.output_weight[EOS])
    return model


MODEL = ending_model(N=1, d_model=32, d_ff=40, h=2)


@pytest.mark.parametrize("products", FORMATS)
@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=20),
    beam=st.integers(1, 6),
    n_best=st.integers(1, 6),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 3.0, -1.0]),
    min_length=st.sampled_from([1, 2, 5]),
    max_extra=st.sampled_from([4, 7, 50]),
    forbidden=st.sampled_from(
        [(), (0, 1, 2), tuple(range(4, 60)), tuple(n for n in range(70) if n not in (EOS, 9))]
    ),
    most_at_once=st.sampled_from([None, 1, 2, 5]),
    threads=st.integers(1, 3),
    seed=st.integers(0, 99),
    penalty=st.sampled_from([length_penalty, power_penalty]),
)
@example(  # nothing may come
    [5, 1], 4, 4, 0.6, 5, 4, tuple(n for n in range(70) if n != EOS), None, 1, 0, length_penalty
)
def test_hypotheses_are_those_of_the_search_step_by_step(
    products,
    lengths,
    beam,
    n_best,
    alpha,
    min_length,
    max_extra,
    forbidden,
    most_at_once,
    threads,
    seed,
    penalty,
):
    """To the bit: the same kernels compute both."""
    packed = PackedModel.of(MODEL, products)
    sources = drawn_sources(lengths, seed=seed)
    options = SearchOptions(
        beam_size=beam,
        n_best=min(beam, n_best),
        alpha=alpha,
        min_length=min_length,
        max_extra=max_extra,
        penalty=penalty,
    )
    torch.set_num_threads(threads)
    got = whole(packed, sources, options, forbidden, most_at_once=most_at_once)
    assert got == by_steps(packed, sources, options, forbidden)


@pytest.mark.parametrize("products", FORMATS)
@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=12),
    most=st.integers(1, 69),
    beam=st.integers(1, 5),
    min_length=st.sampled_from([1, 3]),
    most_at_once=st.sampled_from([None, 1, 3]),
    threads=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_among_choices_too(products, lengths, most, beam, min_length, most_at_once, threads, seed):
    """Against the same step function with -inf for all other tokens; sums of fewer terms round otherwise."""
    packed = PackedModel.of(MODEL, products)
    sources = drawn_sources(lengths, seed=seed)
    draw = torch.Generator().manual_seed(seed)
    choices = [
        torch.cat([torch.tensor([EOS]), torch.randperm(V, generator=draw)[:most]]).unique() for _ in sources
    ]
    options = SearchOptions(beam_size=beam, min_length=min_length, max_extra=6)
    torch.set_num_threads(threads)
    got = whole(packed, sources, options, choices=choices, most_at_once=most_at_once)
    wanted = by_steps(packed, sources, options, choices=choices)
    for some, found, hypotheses in zip(choices, got, wanted, strict=True):
        assert [h.tokens for h in found] == [h.tokens for h in hypotheses]
        assert [h.score for h in found] == pytest.approx([h.score for h in hypotheses], abs=1e-6)
        assert all(set(h.tokens) <= set(some.tolist()) for h in found)


@pytest.mark.parametrize("products", FORMATS)
def test_all_tokens_as_choices_are_no_restriction(products):
    packed = PackedModel.of(MODEL, products)
    sources = drawn_sources([9, 3, 14], seed=1)
    options = SearchOptions(beam_size=4, max_extra=6)
    everything = [torch.arange(V)] * len(sources)
    assert whole(packed, sources, options, choices=everything) == whole(packed, sources, options)


def test_choices_that_a_kernel_would_misread_are_refused():
    packed, sources = PackedModel.of(MODEL), drawn_sources([4], seed=1)
    for bad in ([], [5, 3], [3, 3], [3, V], [-1, 3]):
        with pytest.raises(AssertionError):
            whole(packed, sources, SearchOptions(), choices=[torch.tensor(bad, dtype=torch.int64)])


def test_hypotheses_of_all_kinds_were_compared():
    """Ended and cut, n-best of different lengths: else the test above would prove little."""
    packed = PackedModel.of(MODEL)
    options = SearchOptions(beam_size=4, n_best=4, max_extra=7)
    found = [h for hypotheses in whole(packed, drawn_sources([9] * 40, seed=1), options) for h in hypotheses]
    assert {h.finished for h in found} == {True, False}
    assert len({len(h.tokens) for h in found}) > 5


@pytest.mark.parametrize(
    "sizes", [{}, {"d_model": 40, "h": 1, "d_k": 20, "d_v": 7}, {"d_model": 96, "d_ff": 1024}]
)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("products", FORMATS)
def test_one_sentence_has_all_threads_and_the_same_answer(sizes, threads, products):
    packed = PackedModel.of(ending_model(**sizes), products)
    options = SearchOptions(beam_size=4, max_extra=10)
    sources = drawn_sources([12, 30, 5], seed=4)
    torch.set_num_threads(1)
    among = whole(packed, sources, options)
    torch.set_num_threads(threads)
    assert [whole(packed, [source], options)[0] for source in sources] == among


def test_nothing_to_search_is_nothing_found():
    assert whole(PackedModel.of(MODEL), [], SearchOptions()) == []


def test_logits_that_are_no_distribution_are_refused_with_the_sentence():
    model = ending_model(N=1, shared_embeddings=False)
    with torch.no_grad():
        model.source_embedding.weight[33] = torch.nan
    packed = PackedModel.of(model)
    with pytest.raises(DragomanError, match="not finite") as caught:
        whole(packed, [[5, EOS], [33, EOS], [6, EOS]], SearchOptions())
    assert "[1]" in str(caught.value)
    assert all(whole(packed, [[5, EOS], [6, EOS]], SearchOptions()))


def test_ids_that_are_none_are_refused_and_not_read():
    packed = PackedModel.of(MODEL)
    for bad in (-1, 70):
        with pytest.raises(AssertionError, match="outside 0"):
            whole(packed, [[5, bad]], SearchOptions())
    with pytest.raises(ConfigError, match="beyond a vocabulary"):
        whole(packed, [[5, EOS]], SearchOptions(), forbidden=(70,))


def test_a_beam_there_is_no_memory_for_is_an_error_and_no_end_of_the_process():
    """Far beyond what options allow, which is what they are for."""
    packed, source = PackedModel.of(MODEL), [drawn_sources([5], seed=1)[0]]
    task = SearchTask.of([5], options=SearchOptions(), bos_id=BOS, eos_id=EOS, forbidden_ids=(), device="cpu")
    options = SearchOptions(beam_size=1_000)
    object.__setattr__(options, "beam_size", 1 << 44)
    with pytest.raises(MemoryError):
        search_all(packed, source, replace(task, options=options))
    assert search_all(packed, source, task)[0]


def test_a_signal_ends_it_at_once():
    """What its handler raises comes out, long before all are done."""
    packed = PackedModel.of(ending_model(d_model=96))
    sources = drawn_sources([200] * 4_000, seed=1)

    class Stopped(Exception):
        pass

    def handler(_number, _frame):
        raise Stopped

    old = signal.signal(signal.SIGUSR1, handler)
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        start = time.monotonic()
        with pytest.raises(Stopped):
            whole(packed, sources, SearchOptions(max_extra=300))
        assert time.monotonic() - start < 5
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert isinstance(whole(packed, sources[:1], SearchOptions())[0][0], Hypothesis)
