"""What decoding a token at a time is compared with: the prefixes kept in plain lists, and reordered by plain indexing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from dragoman.model import incremental
from dragoman.model.embedding import output_map
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.mask import padding_mask
from dragoman.model.transformer import Transformer

BOS = 2
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-12}


class Prefixes:
    """What the cache stands for: the sources still searched, and the K prefixes of each."""

    def __init__(self, source_ids: Tensor) -> None:
        self.source_ids = source_ids
        self.prefixes = torch.empty(len(source_ids), 1, 0, dtype=torch.int64)

    def append(self, tokens: Tensor) -> None:
        self.prefixes = torch.cat([self.prefixes, tokens[:, :, None]], dim=2)

    def reorder(self, sentences: Tensor, parents: Tensor) -> None:
        self.source_ids = self.source_ids[sentences]
        kept = [self.prefixes[s][parents[i]] for i, s in enumerate(sentences.tolist())]
        self.prefixes = torch.stack(kept)

    @torch.no_grad()
    def logits(self, model: Transformer) -> Tensor:
        """Of the token after each prefix, every prefix by itself."""
        rows = []
        for source, prefixes in zip(self.source_ids, self.prefixes, strict=True):
            memory, mask = model.encode(source[None]), padding_mask(source[None], model.config.pad_id)
            rows.append(torch.cat([model.decode(prefix[None], memory, mask)[:, -1] for prefix in prefixes]))
        return torch.stack(rows)


@contextmanager
def unrounded() -> Iterator[list[Tensor]]:
    """The logits of each step as they are before the decoder rounds them to float32."""
    logits: list[Tensor] = []

    def noted(x: Tensor, weight: Tensor) -> Tensor:
        logits.append(output_map(x, weight))
        return logits[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental, "output_map", noted)
        yield logits


def assert_steps_equal(
    model: Transformer, source_ids: Tensor, *, steps: int, seed: int, widths: range, may_drop: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    decoder, kept = IncrementalDecoder(model, source_ids), Prefixes(source_ids)
    tokens = torch.full((len(source_ids), 1), BOS)
    tolerance = TOLERANCES[model.dtype]
    for _ in range(steps):
        kept.append(tokens)
        with unrounded() as logits:
            got = decoder(tokens)
        torch.testing.assert_close(logits[0], kept.logits(model), rtol=tolerance, atol=tolerance)
        assert torch.equal(got, logits[0].float())
        B, K = tokens.shape
        few = int(torch.randint(1, B + 1, (), generator=generator)) if may_drop else B
        sentences = torch.randperm(B, generator=generator)[:few]
        K_next = int(torch.randint(widths.start, widths.stop, (), generator=generator))
        parents = torch.randint(0, K, (few, K_next), generator=generator)
        decoder.reorder(sentences, parents)
        kept.reorder(sentences, parents)
        tokens = torch.randint(0, model.config.vocab_size, (few, K_next), generator=generator)
