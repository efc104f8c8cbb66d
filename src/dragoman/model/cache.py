"""What a decoder layer remembers between steps: keys and values of the prefix, and of the source.

Paper: none (infrastructure)

B sentences, K hypotheses of each, R = B*K rows, t positions so far, S source positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

GROWTH = 16  # positions added to a full cache: fixed steps, so that shapes repeat


@dataclass
class LayerCache:
    """One decoder layer's memory.

    Attributes:
        source_K, source_V: keys and values of the source, computed once a sentence, shared by its
            hypotheses.
        source_mask: source positions that are tokens.
        K, V: keys and values of the target prefix, room for more positions than are in use.
        length: positions in use.
    """

    source_K: Float[Tensor, "B h S d_k"]
    source_V: Float[Tensor, "B h S d_v"]
    source_mask: Bool[Tensor, "B 1 1 S"]
    K: Float[Tensor, "R h room d_k"]
    V: Float[Tensor, "R h room d_v"]
    length: int = 0

    @classmethod
    def empty(cls, source_K: Tensor, source_V: Tensor, source_mask: Tensor) -> LayerCache:
        """A cache before the first step, one hypothesis a sentence."""
        B, h, _, d_k = source_K.shape
        K = source_K.new_zeros(B, h, GROWTH, d_k)
        V = source_V.new_zeros(B, h, GROWTH, source_V.shape[-1])
        return cls(source_K, source_V, source_mask, K, V)

    def append(
        self, K: Float[Tensor, "R h 1 d_k"], V: Float[Tensor, "R h 1 d_v"]
    ) -> tuple[Float[Tensor, "R h t d_k"], Float[Tensor, "R h t d_v"]]:
        """Adds one position and returns all positions so far."""
        if self.length == self.K.shape[2]:
            self.K = torch.cat([self.K, torch.zeros_like(self.K[:, :, :GROWTH])], dim=2)
            self.V = torch.cat([self.V, torch.zeros_like(self.V[:, :, :GROWTH])], dim=2)
        self.K[:, :, self.length] = K[:, :, 0]
        self.V[:, :, self.length] = V[:, :, 0]
        self.length += 1
        return self.K[:, :, : self.length], self.V[:, :, : self.length]

    def reorder(self, rows: Int64[Tensor, "R2"], sentences: Int64[Tensor, "B2"] | None) -> None:
        """Row r goes on from old row rows[r]; only `sentences` stay (None: all of them)."""
        self.K, self.V = self.K.index_select(0, rows), self.V.index_select(0, rows)
        if sentences is not None:
            self.source_K = self.source_K.index_select(0, sentences)
            self.source_V = self.source_V.index_select(0, sentences)
            self.source_mask = self.source_mask.index_select(0, sentences)
