"""What is done with text is told from what others do.

Paper: 5.1
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import sentencepiece

from dragoman.fidelity import corpus as probes
from dragoman.scoring.bleu import bleu
from dragoman.text.subwords import Subwords


def test_the_papers_rules():
    assert probes.subwords(None) == "byte-pair encoding"
    assert probes.batches() == "similar lengths together, counted in tokens"
    assert probes.measure_of_translations() == "sacreBLEU, case:mixed, tok:13a"


@pytest.mark.parametrize(
    ("kind", "said"), [("bpe", "byte-pair encoding"), ("unigram", "a unigram model"), ("char", "characters")]
)
def test_kinds_of_subwords(kind, said):
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(probes.TEXT * 9), model_writer=made, model_type=kind, vocab_size=24,
        pad_id=0, eos_id=1, bos_id=2, unk_id=3, hard_vocab_limit=False, minloglevel=5,
    )  # fmt: skip
    assert probes.subwords(Subwords.from_bytes(made.getvalue())) == said


class OtherPlan:
    """Batches made another way."""

    def __init__(
        self, sources: Any, targets: Any, source_tokens: int, target_tokens: int, *_rest: Any
    ) -> None:
        self.pairs, self.lengths, self.runs = np.arange(len(sources)), sources, [[0]]
        for pair in self.pairs[1:]:
            run = [*self.runs[-1], pair]
            if sources[run].sum() <= source_tokens and targets[run].sum() <= target_tokens:
                self.runs[-1] = run
            else:
                self.runs.append([pair])

    def cut(self, order: Any, rows: int) -> list[Any]:
        return [order[start : start + rows] for start in range(0, len(order), rows)]


class ByPairs(OtherPlan):
    def epoch(self, _epoch: int) -> list[Any]:
        return self.cut(np.argsort(self.lengths, kind="stable"), 64)


class Unsorted(OtherPlan):
    def epoch(self, _epoch: int) -> list[Any]:
        return self.runs


class Scraps(OtherPlan):
    def epoch(self, _epoch: int) -> list[Any]:
        return self.cut(np.argsort(self.lengths, kind="stable"), 4)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (ByPairs, "similar lengths together, counted otherwise"),
        (Unsorted, "any lengths together, counted in tokens"),
        (Scraps, "similar lengths together, counted otherwise"),
    ],
)
def test_other_batches(monkeypatch, plan, said):
    monkeypatch.setattr(probes, "BatchPlan", plan)
    assert probes.batches() == said


def test_another_measure(monkeypatch):
    monkeypatch.setattr(
        probes, "bleu", lambda a, b, target_language: bleu(a, b, lowercase=True, tokenize="intl")
    )
    assert probes.measure_of_translations() == "sacreBLEU, case:lc, tok:intl"
