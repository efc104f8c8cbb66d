"""Probes of what is done with text: subwords, batches, and the measure of translations.

Paper: none (measures what other modules do)
"""

from __future__ import annotations

import re

import numpy as np

from dragoman.data.plan import BatchPlan
from dragoman.scoring.bleu import bleu
from dragoman.text.sentencepiece_format import read_facts
from dragoman.text.subwords import Subwords

TEXT = ("a man walks on the beach", "a dog runs on the beach", "two men walk in the rain")
KINDS = {
    "bpe": "byte-pair encoding",
    "unigram": "a unigram model",
    "word": "whole words",
    "char": "characters",
}
PAIRS, LONGEST = 4_000, 100
SOURCE_TOKENS, TARGET_TOKENS = 2_000, 1_900


def subwords(model: Subwords | None) -> str:
    """The kind of subwords (5.1): of the model, or of what `dragoman prepare` trains where None."""
    model = Subwords.train(list(TEXT), vocab_size=300) if model is None else model
    return KINDS[read_facts(model.to_bytes()).kind]


def batches() -> str:
    """Whether a batch is counted in tokens, both budgets kept, and its rows are of like lengths (5.1)."""
    random = np.random.default_rng(1)
    sources = random.integers(1, LONGEST, PAIRS)
    targets = np.clip(sources + random.integers(-5, 6, PAIRS), 1, LONGEST)
    planned = list(BatchPlan(sources, targets, SOURCE_TOKENS, TARGET_TOKENS, 1, LONGEST).epoch(0))
    used = [(sources[rows].sum() / SOURCE_TOKENS, targets[rows].sum() / TARGET_TOKENS) for rows in planned]
    fullest = [max(shares) for shares in used]
    counted = "counted in tokens" if max(fullest) <= 1.0 and np.mean(fullest) > 0.7 else "counted otherwise"
    positions = sum(len(rows) * int(sources[rows].max()) for rows in planned)
    return f"{'similar' if positions < 1.2 * sources.sum() else 'any'} lengths together, {counted}"


def measure_of_translations() -> str:
    """What `dragoman evaluate` calls BLEU, by its own signature (silent)."""
    signature = bleu(TEXT, TEXT, target_language=None).signature
    said = re.findall(r"(?:case|tok):[^|]+", signature)
    return ", ".join(["sacreBLEU", *said])
