"""The decoder alone: a language model, which says what comes next in a text.

Later: Liu et al. 2018, "Generating Wikipedia by Summarizing Long Sequences", arXiv:1801.10198; Radford et al. 2018
Silent: the first token (BOS, by which the text is shifted right); what a sequence is (a line of the text, EOS at its
end; the first of the two puts source and target into one).

The paper's decoder without its attention over a source, of which there is none:

    P(y) = product of P(y_t | y_1 .. y_(t-1)),  each token attending to itself and those before it

B batch, T positions, P positions of a prompt, K continuations of it, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from dragoman.data.batches import Batch
from dragoman.model.cache import GROWTH, LayerCache
from dragoman.model.config import ModelConfig, ModelShape
from dragoman.model.layers import EncoderLayer
from dragoman.model.mask import causal_mask
from dragoman.model.parts import PAPER, Parts
from dragoman.model.transformer import INITIAL_SEED
from dragoman.variants.one_stack import OneStack


class LanguageLayer(EncoderLayer):
    """Masked self-attention, as a decoder layer has it, then the feed-forward network; at once, or step by step."""

    def __init__(self, shape: ModelShape, parts: Parts) -> None:
        super().__init__(shape, replace(parts, attention=parts.decoder_attention or parts.attention))

    def begin(
        self, x: Float[Tensor, "B P d_model"], mask: Bool[Tensor, "1 1 P P"]
    ) -> tuple[Float[Tensor, "B P d_model"], LayerCache]:
        """`forward` for a prompt, and the cache that steps go on from."""
        attention, kept = self.self_attention, list[Tensor]()

        def attend(y: Tensor) -> Tensor:
            Q, K, V = attention.self_projections(y)
            kept.extend((K, V))
            heads: Tensor = attention.output(attention.attend(Q, K, V, mask))
            return heads

        y: Tensor = self.residual_2(self.residual_1(x, attend), self.feed_forward)
        K, V = kept
        nothing = torch.zeros(len(K), 1, 1, 0, dtype=torch.bool, device=K.device)  # there is no source
        room = (0, 0, 0, GROWTH)
        cache = LayerCache(
            K[:, :, :0], V[:, :, :0], nothing, F.pad(K, room), F.pad(V, room), length=x.shape[1]
        )
        return y, cache

    def step(self, x: Float[Tensor, "B K d_model"], cache: LayerCache) -> Float[Tensor, "B K d_model"]:
        """`forward` for the newest position of K continuations, the older ones being in `cache`."""
        x = self.residual_1(x, lambda y: self.self_attention.step(y, cache))
        y: Tensor = self.residual_2(x, self.feed_forward)
        return y


class DecoderOnly(OneStack):
    """N layers, each position seeing itself and those before it.

    Args:
        config: sizes and vocabulary.
        parts: what it is made of; the paper's parts unless told otherwise.
        seed: of the initial weights; None: what memory holds.
    """

    def __init__(self, config: ModelConfig, parts: Parts = PAPER, *, seed: int | None = INITIAL_SEED) -> None:
        layers = [LanguageLayer(config, parts) for _ in range(config.N)]
        super().__init__(config, parts, layers, seed=seed)

    def forward(self, ids: Int64[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Logits of the next token at every position.

        Args:
            ids: texts shifted right (BOS first), padded at the end, where no token before attends to.
        """
        return self.logits(self.through(ids, causal_mask(ids.shape[1], ids.device)))

    def hidden(
        self, source_ids: Int64[Tensor, "B S"], target_ids: Int64[Tensor, "B T"]
    ) -> Float[Tensor, "B T d_out"]:
        """What `forward` gives of the target before the output map; there is no source."""
        return self.through(target_ids, causal_mask(target_ids.shape[1], target_ids.device))


def next_token(batch: Batch) -> Batch:
    """What it learns from: the text shifted right, and the text. No source is left in the batch."""
    return replace(batch, source_ids=batch.source_ids[:, :0], source_tokens=0)


class PromptedDecoder:
    """The step function of a search that continues prompts (`dragoman.search.step.StepFunction`).

    A search begins with BOS; here that stands for the prompt, whose own first token is BOS. Dropout must be off.

    Args:
        model: in evaluation mode.
        prompts: BOS and the tokens of each, all of one length: there is no padding.
    """

    def __init__(self, model: DecoderOnly, prompts: Int64[Tensor, "B P"]) -> None:
        assert not model.training, "dropout must be off: model.eval()"
        self._model, self._prompts = model, prompts
        self._caches: list[LayerCache] = []
        self._continuations = 1
        with torch.inference_mode():
            self._output_weight = model.output_weight

    @torch.inference_mode()
    def __call__(self, tokens_BK: Int64[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Logits, in float32, of what comes after the prompt; then, after each token that is appended."""
        x = self._step(tokens_BK) if self._caches else self._begin()
        return self._model.logits(self._model.for_output(x)).float()

    @property
    def _layers(self) -> list[LanguageLayer]:
        return [cast(LanguageLayer, layer) for layer in self._model.layers]

    def _begin(self) -> Tensor:
        model, P = self._model, self._prompts.shape[1]
        model.position.rows(P)
        x, mask = model.embedded(self._prompts), causal_mask(P, self._prompts.device)
        for layer in self._layers:
            x, cache = layer.begin(x, mask)
            self._caches.append(cache)
        return x[:, -1:]

    def _step(self, tokens_BK: Tensor) -> Tensor:
        model, position = self._model, self._caches[0].length
        model.position.rows(position + 1)
        x = model.embedded(tokens_BK, torch.full_like(tokens_BK, position))
        for layer, cache in zip(self._layers, self._caches, strict=True):
            x = layer.step(x, cache)
        return x

    @torch.inference_mode()
    def reorder(self, sentences_B: Int64[Tensor, "B2"], parents_BK: Int64[Tensor, "B2 K2"]) -> None:
        """Keeps the prompts named, and makes continuation j of each go on from old continuation parents[j]."""
        rows = (sentences_B[:, None] * self._continuations + parents_BK).reshape(-1)
        for cache in self._caches:
            cache.reorder(rows, None)
        self._continuations = parents_BK.shape[1]
