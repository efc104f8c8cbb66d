"""Decoding one token at a time: the same logits as `Transformer.decode`, without computing the prefix anew.

Paper: 3 ("auto-regressive, consuming the previously generated symbols as additional input")

B sentences, K hypotheses of each, S source positions, V vocabulary.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.model.embedding import output_map
from dragoman.model.mask import padding_mask
from dragoman.model.transformer import Transformer


class IncrementalDecoder:
    """The step function of a search, for a batch of source sentences.

    Each call appends one token to each hypothesis and gives the logits of the next; `reorder` follows the
    search in dropping sentences and choosing which hypotheses go on. Dropout must be off (`model.eval()`).
    """

    def __init__(self, model: Transformer, source_ids: Int64[Tensor, "B S"]) -> None:
        assert not model.training, "dropout must be off: model.eval()"
        self._model = model
        with torch.inference_mode():
            memory = model.encode(source_ids)
            mask = padding_mask(source_ids, model.config.pad_id)
            self._output_weight = model.output_weight
            self._caches = [layer.start(memory, mask) for layer in model.decoder_layers]
        self._hypotheses = 1
        self._position = 0

    @torch.inference_mode()
    def __call__(self, tokens_BK: Int64[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Appends a token to each hypothesis; logits of the next token, in float32."""
        model = self._model
        model.position.rows(self._position + 1)
        positions = torch.full_like(tokens_BK, self._position)
        x = model.position(model.target_embedding(tokens_BK), positions)
        for layer, cache in zip(model.decoder_layers, self._caches, strict=True):
            x = layer.step(x, cache)
        self._position += 1
        return output_map(model.for_output(x), self._output_weight).float()

    @torch.inference_mode()
    def reorder(self, sentences_B: Int64[Tensor, "B2"], parents_BK: Int64[Tensor, "B2 K2"]) -> None:
        """Keeps the sentences named, and makes hypothesis j of each go on from old hypothesis parents[j]."""
        B = self._caches[0].source_K.shape[0]
        # The same number of sentences may still be another order: their sources must follow.
        everyone = torch.equal(sentences_B, torch.arange(B, device=sentences_B.device))
        rows = (sentences_B[:, None] * self._hypotheses + parents_BK).reshape(-1)
        for cache in self._caches:
            cache.reorder(rows, None if everyone else sentences_B)
        self._hypotheses = parents_BK.shape[1]
