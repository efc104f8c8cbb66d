"""Embeddings in which the decoder's first token is no row of its own.

Later: Vaswani et al. 2018 (tensor2tensor: zeros), arXiv:1803.07416; Ott et al. 2019 (fairseq: the end mark)
Silent: the padding's row, which Hugging Face's Marian begins with (Wolf et al. 2020), is learned as any other here.

A model is given the id of BOS there, as ever, so that batches, search and scores need no word of it; no text has that id.
"""

from __future__ import annotations

from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.model.embedding import Embedding
from dragoman.text.subwords import Subwords
from dragoman.variants.output_bias import BiasedEmbedding


class _FromZeros(Embedding):
    """The decoder begins with zeros, positions aside."""

    def forward(self, ids: Int64[Tensor, "*B"]) -> Float[Tensor, "*B d_model"]:
        """Looks the tokens up, but for BOS."""
        return super().forward(ids).masked_fill((ids == Subwords.BOS_ID).unsqueeze(-1), 0.0)


class _FromRow(Embedding):
    """The decoder begins with another token's row."""

    row: int

    def forward(self, ids: Int64[Tensor, "*B"]) -> Float[Tensor, "*B d_model"]:
        """Looks the tokens up, the other one for BOS."""
        return super().forward(ids.masked_fill(ids == Subwords.BOS_ID, self.row))


class _FromEnd(_FromRow):
    row = Subwords.EOS_ID


class _FromPadding(_FromRow):
    row = Subwords.PAD_ID


class _BiasedFromZeros(_FromZeros, BiasedEmbedding):
    pass


class _BiasedFromEnd(_FromEnd, BiasedEmbedding):
    pass


class _BiasedFromPadding(_FromPadding, BiasedEmbedding):
    pass


# By the departure's name: the plain embedding, and the one whose output map has a bias.
STARTS: dict[str, tuple[type[Embedding], type[Embedding]]] = {
    "zero_start": (_FromZeros, _BiasedFromZeros),
    "end_start": (_FromEnd, _BiasedFromEnd),
    "padding_start": (_FromPadding, _BiasedFromPadding),
}
