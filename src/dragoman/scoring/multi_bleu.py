"""BLEU of tokens, as multi-bleu counts it: four orders, no smoothing, the closest reference's length.

Paper: 6.1
Silent: the BLEU program of Table 2. The authors' own script calls multi-bleu; its arithmetic is here, from
sentence counts that can be added up (Papineni et al. 2002, BLEU, section 2.3).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

ORDERS = 4
STATISTICS = 2 + 2 * ORDERS

# multi-bleu reads bytes, so that only ASCII white space parts tokens: a no-break space does not.
_TOKEN = re.compile(r"[^ \t\n\v\f\r]+")

NGrams = Counter[tuple[str, ...]]


@dataclass(frozen=True)
class MultiBleu:
    """BLEU and its parts.

    Args:
        value: BLEU, 0 to 100; 0 where any order has no match.
        precisions: one for each order, 0 to 100.
        brevity_penalty: 1 unless the hypotheses are shorter than the references.
        hypothesis_length: tokens of all hypotheses.
        reference_length: tokens of the reference closest in length to each hypothesis.
    """

    value: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int


def tokens(text: str) -> tuple[str, ...]:
    """Split tokenized text at ASCII white space."""
    return tuple(_TOKEN.findall(text))


def sentence_statistics(hypothesis: Sequence[str], references: Sequence[Sequence[str]]) -> list[int]:
    """Count what BLEU needs of one sentence; the sum over sentences gives the corpus' BLEU.

    Args:
        hypothesis: its tokens.
        references: the tokens of each of its references, one at least.

    Returns:
        Hypothesis length, closest reference length, matches of orders 1 to 4, n-grams of orders 1 to 4.
    """
    matches, totals = [], []
    for order in range(1, ORDERS + 1):
        counts = _ngrams(hypothesis, order)
        most = _most_in_one(references, order)
        matches.append(sum(min(count, most[ngram]) for ngram, count in counts.items()))
        totals.append(sum(counts.values()))
    return [len(hypothesis), _closest_length(len(hypothesis), references), *matches, *totals]


def bleu_of_statistics(statistics: Sequence[float]) -> MultiBleu:
    """Compute BLEU from added-up sentence counts.

    Args:
        statistics: sums of `sentence_statistics`, in its order.

    Returns:
        BLEU = brevity penalty · geometric mean of the four precisions.
    """
    hypothesis_length, reference_length = statistics[0], statistics[1]
    matches, totals = statistics[2 : 2 + ORDERS], statistics[2 + ORDERS :]
    precisions = [match / total if total else 0.0 for match, total in zip(matches, totals, strict=True)]
    penalty = _brevity_penalty(hypothesis_length, reference_length)
    mean = math.exp(sum(map(math.log, precisions)) / ORDERS) if all(precisions) else 0.0
    return MultiBleu(
        value=100.0 * penalty * mean,
        precisions=tuple(100.0 * precision for precision in precisions),
        brevity_penalty=penalty,
        hypothesis_length=int(hypothesis_length),
        reference_length=int(reference_length),
    )


def _ngrams(words: Sequence[str], order: int) -> NGrams:
    """Count the n-grams of one order."""
    return Counter(zip(*(words[start:] for start in range(order)), strict=False))


def _most_in_one(references: Sequence[Sequence[str]], order: int) -> NGrams:
    """Return, of each n-gram, the largest count in any one reference."""
    most: NGrams = Counter()
    for reference in references:
        most |= _ngrams(reference, order)
    return most


def _closest_length(length: int, references: Sequence[Sequence[str]]) -> int:
    """Return the reference length nearest to the hypothesis', the shorter of two equally near."""
    return min((len(reference) for reference in references), key=lambda other: (abs(other - length), other))


def _brevity_penalty(hypothesis_length: float, reference_length: float) -> float:
    """Return exp(1 - r/c) where the hypotheses are the shorter side, else 1; 0 for no words at all."""
    if not hypothesis_length:
        return 0.0
    return min(1.0, math.exp(1.0 - reference_length / hypothesis_length))
