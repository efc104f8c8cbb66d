"""The protocol: a step function that keeps state ("cached") gives what one without state gives."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman.search import Hypothesis, SamplingOptions, SearchOptions, StepFunction, beam_search, sample

VOCAB_SIZE, WIDTH, BOS_ID, EOS_ID = 9, 6, 2, 1


class Recurrent:
    """A small random recurrent model: a state per sentence, moved by each token."""

    def __init__(self, seed: int, sentences: list[int]) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.embedding = torch.randn(VOCAB_SIZE, WIDTH, generator=generator)
        self.mix = torch.randn(WIDTH, WIDTH, generator=generator)
        self.out = torch.randn(WIDTH, VOCAB_SIZE, generator=generator) * 2
        self.start = torch.randn(50, WIDTH, generator=generator)[sentences]

    def moved(self, state: Tensor, tokens: Tensor) -> Tensor:
        """The state after one more token, summed elementwise so that shapes cannot change the sum's order."""
        return torch.tanh((state.unsqueeze(-1) * self.mix).sum(-2) + self.embedding[tokens])

    def logits(self, state: Tensor) -> Tensor:
        return (state.unsqueeze(-1) * self.out).sum(-2)


class Cached(Recurrent):
    """Keeps the state of each prefix."""

    state: Tensor | None = None

    def __call__(self, tokens_BK: Tensor) -> Tensor:
        state = self.start.unsqueeze(1) if self.state is None else self.state
        self.state = self.moved(state, tokens_BK)
        return self.logits(self.state)

    def reorder(self, sentences_B: Tensor, parents_BK: Tensor) -> None:
        assert self.state is not None
        self.state = self.state[sentences_B.unsqueeze(1), parents_BK]


class Uncached(Recurrent):
    """Keeps the tokens of each prefix, and starts over at each step."""

    tokens: Tensor | None = None

    def __call__(self, tokens_BK: Tensor) -> Tensor:
        newest = tokens_BK.unsqueeze(2)
        self.tokens = newest if self.tokens is None else torch.cat([self.tokens, newest], 2)
        state = self.start.unsqueeze(1).expand(-1, tokens_BK.shape[1], -1)
        for column in self.tokens.unbind(2):
            state = self.moved(state, column)
        return self.logits(state)

    def reorder(self, sentences_B: Tensor, parents_BK: Tensor) -> None:
        assert self.tokens is not None
        self.tokens = self.tokens[sentences_B.unsqueeze(1), parents_BK]
        self.start = self.start[sentences_B]


def outputs(step: StepFunction, lengths: list[int], beam: int) -> list[list[Hypothesis]]:
    options = SearchOptions(beam_size=beam, n_best=beam, max_extra=12)
    return beam_search(
        step, source_lengths=lengths, options=options, bos_id=BOS_ID, eos_id=EOS_ID, forbidden_ids=[0, 2]
    )


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 5))
def test_cached_equals_uncached(seed: int, lengths: list[int], beam: int) -> None:
    """B55: state that is not reordered with the prefixes, or keeps sentences that left, shows here."""
    sentences = list(range(len(lengths)))
    cached = outputs(Cached(seed, sentences), lengths, beam)
    assert cached == outputs(Uncached(seed, sentences), lengths, beam)


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 3))
def test_cached_equals_uncached_in_sampling(seed: int, lengths: list[int], samples: int) -> None:
    options = SamplingOptions(seed=seed, samples=samples, max_extra=9)
    sentences = list(range(len(lengths)))
    drawn = [
        sample(kind(seed, sentences), source_lengths=lengths, options=options, bos_id=BOS_ID, eos_id=EOS_ID)
        for kind in (Cached, Uncached)
    ]
    assert drawn[0] == drawn[1]


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.permutations(range(5)), st.integers(1, 4))
def test_neighbors_do_not_matter(seed: int, order: list[int], beam: int) -> None:
    lengths = [3, 9, 1, 6, 4]
    together = outputs(Cached(seed, order), [lengths[k] for k in order], beam)
    for place, k in enumerate(order):
        assert outputs(Cached(seed, [k]), [lengths[k]], beam)[0] == together[place]


def test_forgetting_to_reorder_would_show() -> None:
    class Forgetful(Cached):
        def reorder(self, sentences_B: Tensor, parents_BK: Tensor) -> None:
            assert self.state is not None
            kept = self.state[sentences_B]
            self.state = kept.expand(-1, parents_BK.shape[1], -1)

    differing = sum(
        outputs(Forgetful(seed, [0]), [9], 3) != outputs(Uncached(seed, [0]), [9], 3) for seed in range(10)
    )
    assert differing >= 5


def test_a_hypothesis_that_is_not_finished_is_truncated() -> None:
    assert Hypothesis((4,), -1.0, -1.0, finished=False).truncated
    assert not Hypothesis((1,), -1.0, -1.0, finished=True).truncated


def test_hypotheses_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Hypothesis((4,), -1.0, -1.0, finished=False).score = 0.0  # type: ignore[misc]


def test_the_protocol_is_met() -> None:
    assert isinstance(Cached(0, [0]), StepFunction)
