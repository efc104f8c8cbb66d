"""The Transformer: embeddings, positions, two stacks, the output map.

Paper: 3, Figure 1
Silent: the decoder's first token (BOS, an ordinary row of the vocabulary; tensor2tensor shifts in a zero
vector); whether the source ends in EOS (it does, as in
tensor2tensor's text problems; the data does that, not the model).

B batch, S source positions, T target positions, V vocabulary, d_out the width of what the output map multiplies (d_model
in the paper).
"""

from __future__ import annotations

from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from dragoman.model.config import ModelConfig
from dragoman.model.dropout import dropout
from dragoman.model.embedding import output_map
from dragoman.model.initialize import initialize
from dragoman.model.layers import DecoderLayer, EncoderLayer
from dragoman.model.mask import causal_mask, padding_mask, segment_mask, segment_positions
from dragoman.model.parts import PAPER, Parts

INITIAL_SEED = 1


class Transformer(nn.Module):
    """The model of Figure 1.

    Args:
        config: sizes and vocabularies.
        parts: what it is made of; the paper's parts unless told otherwise.
        seed: seed of the initial weights; None: what memory holds, for weights that are read from a file.
    """

    def __init__(self, config: ModelConfig, parts: Parts = PAPER, *, seed: int | None = INITIAL_SEED) -> None:
        super().__init__()
        self.config = config
        output = parts.output or parts.embedding
        target = output if config.tied_output else parts.embedding
        self.target_embedding = target(config.vocab_size, config.d_model)
        self.source_embedding = (
            self.target_embedding
            if config.shared_embeddings
            else parts.embedding(config.source_rows, config.d_model)
        )
        self.encoder_start = parts.encoder_start(config)
        self.position = parts.position(config.d_model)
        self.encoder = nn.ModuleList(EncoderLayer(config, parts) for _ in range(config.N))
        self.decoder = nn.ModuleList(DecoderLayer(config, parts) for _ in range(config.N))
        self.encoder_end, self.decoder_end = parts.stack_end(config), parts.stack_end(config)
        self.untied_output = None if config.tied_output else output(config.vocab_size, config.d_model)
        if seed is not None:
            initialize(self, seed)

    @property
    def decoder_layers(self) -> list[DecoderLayer]:
        """The decoder's layers by their own type: they can also go step by step."""
        return [cast(DecoderLayer, layer) for layer in self.decoder]

    @property
    def output_embedding(self) -> Any:
        """What holds the matrix of the output map: the target's embedding, unless untied (3.4)."""
        return self.target_embedding if self.untied_output is None else self.untied_output

    @property
    def output_weight(self) -> Float[Tensor, "V d_out"]:
        """The matrix of the output map."""
        weight: Tensor = self.output_embedding.output_matrix
        return weight

    def for_output(self, x: Float[Tensor, "B T d_model"]) -> Float[Tensor, "B T d_out"]:
        """What the output map multiplies, of what the decoder's last layer gives."""
        hidden: Tensor = self.output_embedding.for_output(self.decoder_end(x))
        return hidden

    def forward(
        self,
        source_ids: Int64[Tensor, "B S"],
        target_ids: Int64[Tensor, "B T"],
        *,
        source_segments: Int64[Tensor, "B S"] | None = None,
        target_segments: Int64[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits of the next token at every target position.

        Args:
            source_ids: source tokens, padded with pad_id.
            target_ids: target tokens already shifted right (BOS first), padded at the end.
            source_segments, target_segments: for packed rows, the number of each token's sentence
                (1, 2, ...; 0 = padding); both or neither.
        """
        hidden = self.hidden(
            source_ids, target_ids, source_segments=source_segments, target_segments=target_segments
        )
        return output_map(hidden, self.output_weight)

    def hidden(
        self,
        source_ids: Int64[Tensor, "B S"],
        target_ids: Int64[Tensor, "B T"],
        *,
        source_segments: Int64[Tensor, "B S"] | None = None,
        target_segments: Int64[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d_out"]:
        """What `forward` gives before the output map: for losses that never hold all the logits."""
        assert (source_segments is None) == (target_segments is None), "segments of both sides or of neither"
        memory = self.encode(source_ids, source_segments)
        if source_segments is None or target_segments is None:
            return self.decode_hidden(target_ids, memory, padding_mask(source_ids, self.config.pad_id))
        source_mask = segment_mask(target_segments, source_segments)
        return self.decode_hidden(target_ids, memory, source_mask, target_segments)

    def encode(
        self, source_ids: Int64[Tensor, "B S"], source_segments: Int64[Tensor, "B S"] | None = None
    ) -> Float[Tensor, "B S d_model"]:
        """The encoder's output, z in the paper (3)."""
        if source_segments is None:
            mask, positions = padding_mask(source_ids, self.config.pad_id), None
        else:
            mask = segment_mask(source_segments, source_segments)
            positions = segment_positions(source_segments)
        x = self._embed(self.encoder_start(self.source_embedding(source_ids)), positions)
        for layer in self.encoder:
            x = layer(x, mask)
        memory: Tensor = self.encoder_end(x)
        return memory

    def decode(
        self,
        target_ids: Int64[Tensor, "B T"],
        memory: Float[Tensor, "B S d_model"],
        source_mask: Bool[Tensor, "B 1 #T S"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits from the encoder's output.

        Args:
            target_ids: as in `forward`.
            memory: what `encode` gave.
            source_mask: source positions that may be attended to, `padding_mask(source_ids, pad_id)`;
                None: all of them.
        """
        return output_map(self.decode_hidden(target_ids, memory, source_mask), self.output_weight)

    def decode_hidden(
        self,
        target_ids: Int64[Tensor, "B T"],
        memory: Float[Tensor, "B S d_model"],
        source_mask: Bool[Tensor, "B 1 #T S"] | None = None,
        target_segments: Int64[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d_out"]:
        """The decoder's output before the output map.

        Padding at the end of the target needs no mask: no token before it may attend to it.
        """
        mask = causal_mask(target_ids.shape[1], target_ids.device)
        positions = None
        if target_segments is not None:
            mask = mask & segment_mask(target_segments, target_segments)
            positions = segment_positions(target_segments)
        x = self._embed(self.target_embedding(target_ids), positions)
        for layer in self.decoder:
            x = layer(x, memory, mask, source_mask)
        return self.for_output(x)

    def _embed(self, embedded: Tensor, positions: Tensor | None) -> Tensor:
        """Dropout(embedding * sqrt(d_model) + position) (3.4, 3.5, 5.4)."""
        self.position.rows(embedded.shape[1])  # so that the table holds every position of a packed row
        x = self.position(embedded, positions)
        return dropout(x, self.config.P_drop, self.training)

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the weights."""
        dtype: torch.dtype = self.target_embedding.weight.dtype
        return dtype
