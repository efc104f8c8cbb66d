"""How probable a model finds a text, by subword, by word and by byte.

Paper: 6.2 (perplexity per word-piece is not to be compared with perplexity per word)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dragoman.scoring.score import Score

_OVERFLOW = 700.0  # nats; more is no float


def perplexities(
    texts: Sequence[str], log_probabilities: Sequence[float], tokens: int, *, vocabulary: str
) -> tuple[Score, ...]:
    """Perplexity a subword and a word, and bits a byte, of texts whose ends are predicted too.

    Args:
        texts: a line each.
        log_probabilities: of each text with its end, in nats.
        tokens: subwords of all, an end a line counted.
        vocabulary: what subwords they are.
    """
    nats = -math.fsum(log_probabilities)
    words = sum(len(text.split()) + 1 for text in texts)
    size = sum(len(text.encode("utf-8", errors="surrogatepass")) + 1 for text in texts)
    made = (
        ("perplexity a subword", _exp(nats / tokens), f"subwords:{vocabulary}|end:counted", tokens),
        ("perplexity a word", _exp(nats / words), "words:by white space|end:counted", words),
        ("bits a byte", nats / size / math.log(2), "bytes:UTF-8|end:a byte", size),
    )
    return tuple(_score(texts, name, value, signature, units, nats) for name, value, signature, units in made)


def masked_scores(
    texts: Sequence[str], log_probability: float, right: int, tokens: int, *, vocabulary: str
) -> tuple[Score, ...]:
    """Pseudo-perplexity (Salazar et al. 2020) and how many tokens are guessed, one hidden at a time.

    Args:
        texts: a line each.
        log_probability: sum of the log P of each token given the others of its text.
        right: tokens that were the most probable in their places.
        tokens: of all texts, ends not counted.
        vocabulary: what subwords they are.
    """
    signature = f"hidden:one at a time|subwords:{vocabulary}|end:not counted"
    made = (
        ("pseudo-perplexity a subword", _exp(-log_probability / max(1, tokens))),
        ("hidden subwords guessed", 100.0 * right / max(1, tokens)),
    )
    return tuple(_score(texts, name, value, signature, tokens, -log_probability) for name, value in made)


def _exp(nats: float) -> float:
    return math.exp(min(nats, _OVERFLOW))


def _score(texts: Sequence[str], name: str, value: float, signature: str, units: int, nats: float) -> Score:
    return Score(
        name=name,
        value=value,
        signature=signature,
        details={"units": units, "nats": nats},
        segments=len(texts),
        blank_hypotheses=0,
        blank_references=sum(not text.strip() for text in texts),
    )
