"""The encoder alone: a masked language model, which says what is hidden in a text that it sees all else of.

Later: Devlin et al. 2018, "BERT: Pre-training of Deep Bidirectional Transformers", arXiv:1810.04805 (3.1, appendix A.1)
Silent: the mark of what is hidden (BOS, an ordinary row that no text of such a model has otherwise); what a sequence is
(a line of the text, EOS at its end, which is never hidden); that every text has something hidden, as short as it may be.

Of that model the objective alone: there are no pairs of sentences, no segments, no token at the front for the whole, and
between the last layer and the output map nothing is put that the paper's encoder and decoder have not.

15 of 100 tokens are chosen; 80 of 100 of these are hidden, 10 are replaced by any token, 10 stay; all chosen are learned.

B batch, S positions, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from dragoman.data.batches import Batch
from dragoman.model.config import ModelConfig
from dragoman.model.layers import EncoderLayer
from dragoman.model.mask import padding_mask
from dragoman.model.parts import PAPER, Parts
from dragoman.model.transformer import INITIAL_SEED
from dragoman.text.subwords import Subwords
from dragoman.variants.one_stack import OneStack

MASK_ID = Subwords.BOS_ID
HIDDEN, REPLACED = 0.8, 0.1  # of the chosen tokens; the rest stays
_FIRST_TEXT_ID = Subwords.UNK_ID + 1  # ids below it are no text


class EncoderOnly(OneStack):
    """N layers, each position seeing all tokens.

    Args:
        config: sizes and vocabulary.
        parts: what it is made of; the paper's parts unless told otherwise.
        seed: of the initial weights; None: what memory holds.
    """

    def __init__(self, config: ModelConfig, parts: Parts = PAPER, *, seed: int | None = INITIAL_SEED) -> None:
        layers = [EncoderLayer(config, parts) for _ in range(config.N)]
        super().__init__(config, parts, layers, seed=seed)

    def forward(self, ids: Int64[Tensor, "B S"]) -> Float[Tensor, "B S V"]:
        """Logits of the token at every position, hidden ones among them; padding is not attended to."""
        return self.logits(self.through(ids, padding_mask(ids, self.config.pad_id)))

    def hidden(
        self, source_ids: Int64[Tensor, "B S"], target_ids: Int64[Tensor, "B S"]
    ) -> Float[Tensor, "B S d_out"]:
        """What `forward` gives of the source before the output map; there is no target to be read."""
        return self.through(source_ids, padding_mask(source_ids, self.config.pad_id))


def hide(batch: Batch, *, vocab_size: int, share: float, seed: int, epoch: int) -> Batch:
    """What it learns from: texts with tokens hidden, and these tokens; padding where nothing is to be learned.

    Which tokens, and what stands in their place, depends on (seed, epoch, number of the text) alone, whatever batch the
    text is in.

    Args:
        batch: texts as sources, EOS at the end of each.
        vocab_size: V; replacing tokens are of text.
        share: of the tokens chosen; 15 of 100 in the source.
        seed: of the choices.
        epoch: another choice each time.
    """
    ids, pad_id = batch.source_ids.numpy(), Subwords.PAD_ID
    seen, learned = ids.copy(), np.full_like(ids, pad_id)
    lengths = (ids != pad_id).sum(axis=1) - 1  # without EOS
    for row, (number, length) in enumerate(zip(batch.pair_indices.tolist(), lengths.tolist(), strict=True)):
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch, number])))
        chosen = _chosen(random, length, share)
        learned[row, :length][chosen] = ids[row, :length][chosen]
        seen[row, :length][chosen] = _in_place_of(random, ids[row, :length][chosen], vocab_size)
    source_ids = torch.from_numpy(seen)
    return replace(
        batch,
        source_ids=source_ids,
        target_input_ids=source_ids,
        target_output_ids=torch.from_numpy(learned),
        target_tokens=int((learned != pad_id).sum()),
    )


def _chosen(random: np.random.Generator, length: int, share: float) -> Bool[np.ndarray, " length"]:
    """Each token by itself with the probability; one of all where that leaves none."""
    drawn = random.random(length)
    chosen: Bool[np.ndarray, " length"] = drawn < share
    if not chosen.any() and length:
        chosen[drawn.argmin()] = True
    return chosen


def _in_place_of(
    random: np.random.Generator, tokens: Int64[np.ndarray, " n"], vocab_size: int
) -> Int64[np.ndarray, " n"]:
    """The mark, another token, or the token itself."""
    kind, others = random.random(len(tokens)), random.integers(_FIRST_TEXT_ID, vocab_size, len(tokens))
    return np.where(kind < HIDDEN, MASK_ID, np.where(kind < HIDDEN + REPLACED, others, tokens))
