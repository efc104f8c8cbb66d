"""BPE-dropout: each pair is segmented anew each epoch, from (seed, epoch, pair, side) alone.

Later: Provilkov et al. 2020, arXiv:1910.13267
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Integer

from dragoman.data.manifest import Side
from dragoman.errors import ConfigError
from dragoman.text.subwords import Subwords

# (side, ids as stored but for the EOS, pair, epoch) -> ids without EOS
Segmenter = Callable[[Side, Integer[np.ndarray, " n"], int, int], list[int]]


def bpe_dropout_segmenter(
    source_subwords: Subwords, target_subwords: Subwords, *, p: float, seed: int
) -> Segmenter:
    """A segmenter for `BatchLoader` that leaves out each merge with probability `p`.

    The text is got back from the stored ids, so it is the normalized one; a unit with an unknown piece, whose
    text cannot be got back, keeps its stored ids.

    Args:
        source_subwords: the model the sources were encoded with.
        target_subwords: the same for the targets.
        p: probability to leave out a merge, 0 to 1; 0.1 in the paper that proposed it.
        seed: with epoch, pair and side the only source of chance.

    Raises:
        ConfigError: `p` or `seed` is out of range.
    """
    if not 0 <= p <= 1:
        raise ConfigError(
            f"the probability of BPE-dropout must be in 0..1, not {p}",
            where="bpe_dropout",
            cure="give a number from 0 to 1; 0.1 is usual",
        )
    if seed < 0:
        raise ConfigError(f"seed must be at least 0, not {seed}", where="seed", cure="give 0 or more")
    models = {"source": source_subwords, "target": target_subwords}

    def segment(side: Side, ids: Integer[np.ndarray, " n"], pair: int, epoch: int) -> list[int]:
        stored: list[int] = ids.tolist()
        if Subwords.UNK_ID in stored:
            return stored
        text = models[side].decode(stored)
        return models[side].encode_with_dropout(text, p, _draw(seed, epoch, pair, side))

    return segment


def _draw(seed: int, epoch: int, pair: int, side: Side) -> int:
    """A seed of 32 bits that shares nothing with those of other epochs, pairs and sides."""
    words = np.random.SeedSequence([seed, epoch, pair, 0 if side == "source" else 1]).generate_state(1)
    return int(words[0])
