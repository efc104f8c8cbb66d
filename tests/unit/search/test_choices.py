"""A step function among choices: others have no probability, and the choices follow their sentences."""

from __future__ import annotations

import torch
from torch import Tensor

from dragoman.search.choices import Among
from dragoman.search.step import StepFunction

V = 7


class Counting:
    """Logits that tell the sentence they belong to."""

    def __init__(self, sentences: int) -> None:
        self.sentences = torch.arange(sentences)

    def __call__(self, tokens_BK: Tensor) -> Tensor:
        return self.sentences[:, None, None].expand(*tokens_BK.shape, V).float()

    def reorder(self, sentences_B: Tensor, parents_BK: Tensor) -> None:
        del parents_BK
        self.sentences = self.sentences[sentences_B]


def test_only_choices_have_a_probability_and_they_follow_their_sentences():
    choices = [torch.tensor([0, 3]), torch.tensor([6]), torch.tensor([1, 2, 5])]
    step = Among(Counting(3), choices, V)
    assert isinstance(step, StepFunction)
    logits = step(torch.zeros(3, 1, dtype=torch.int64))
    for k, some in enumerate(choices):
        assert (logits[k, 0] != -torch.inf).nonzero()[:, 0].tolist() == some.tolist()
        assert (logits[k, 0, some] == k).all()
    step.reorder(torch.tensor([0, 2]), torch.zeros(2, 3, dtype=torch.int64))
    logits = step(torch.zeros(2, 3, dtype=torch.int64))
    for k, sentence in enumerate((0, 2)):
        assert (logits[k] != -torch.inf).sum(-1).tolist() == [len(choices[sentence])] * 3
        assert (logits[k, :, choices[sentence]] == sentence).all()
