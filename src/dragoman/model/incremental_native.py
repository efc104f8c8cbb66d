"""Decoding one token at a time by the kernels in C++: the same step function as `IncrementalDecoder`, in float32.

Paper: 3 ("auto-regressive, consuming the previously generated symbols as additional input")

A step is one call: each block of hypotheses goes through all layers while it is in the cache. Sums are made in one fixed
order, so that a hypothesis's logits are the same whatever is beside it. Keys and values of the prefix stay where they
were written; what moves with the search is, for each hypothesis, the list of its ancestors' places.

B sentences, K hypotheses of each, S source positions, V vocabulary.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.model.packed import Cache, PackedModel, Source, Step
from dragoman.native import check_below

VECTOR = 16
ROOM = 32  # positions a new cache has room for; doubled when full
BLOCK_ROWS = 48  # hypotheses, or source positions, that go through the layers together
ROWS_AT_ONCE = 6


class NativeDecoder:
    """The step function of a search, for a batch of source sentences; see `IncrementalDecoder`.

    Args:
        packed: the model, in evaluation mode.
        source_ids: tokens of each sentence, at least one, then padding.
    """

    def __init__(self, packed: PackedModel, source_ids: Int64[Tensor, "B S"]) -> None:
        model = packed.model
        assert not model.training, "dropout must be off: model.eval()"
        is_token = source_ids != model.config.pad_id
        # The kernels are told of a source by its length.
        lengths = is_token.sum(dim=1)
        assert bool((is_token.cumprod(dim=1).sum(dim=1) == lengths).all()), "padding comes last"
        assert bool((lengths > 0).all()), "a source has at least its EOS"
        check_below(source_ids, model.config.source_rows)
        self._packed = packed
        self._sources, self._memory = self._encode(source_ids.contiguous(), lengths.tolist())
        self._K, self._V = (torch.empty(model.config.N, 0, 0, d) for d in self._widths())
        self._sentences = torch.arange(len(source_ids), dtype=torch.int32)
        self._ancestors = torch.zeros(len(source_ids), 0, dtype=torch.int32)
        self._hypotheses, self._length = 1, 0

    def _widths(self) -> tuple[int, int]:
        config = self._packed.model.config
        return config.h * config.d_k, config.h * config.d_v

    def _encode(self, source_ids: Tensor, lengths: list[int]) -> tuple[ctypes.Array[Source], Tensor]:
        """Keys and values of the sources for each decoder layer."""
        packed, (B, S) = self._packed, source_ids.shape
        places = -(-S // VECTOR) * VECTOR
        memory = torch.zeros(B, packed.memory_size(places))
        sources = (Source * B)(
            *(
                Source(ids.data_ptr(), length, places, kept.data_ptr())
                for ids, length, kept in zip(source_ids, lengths, memory, strict=True)
            )
        )
        groups = torch.tensor(_groups(lengths))
        model, _positions = packed.with_positions(S)
        packed.kernels.encode_sources(ctypes.byref(model), sources, groups.data_ptr(), len(groups) - 1)
        return sources, memory

    @torch.inference_mode()
    def __call__(self, tokens_BK: Int64[Tensor, "B K"]) -> Float[Tensor, "B K V"]:
        """Appends a token to each hypothesis; logits of the next token."""
        (B, K), packed = tokens_BK.shape, self._packed
        model, _positions = packed.with_positions(self._length + 1)
        check_below(tokens_BK, model.output.columns)
        self._make_room(B * K)
        tokens_BK = tokens_BK.contiguous()
        logits = torch.empty(B, K, model.output.columns)
        cache = Cache(self._K.data_ptr(), self._V.data_ptr(), *self._K.shape[1:3])
        step = Step(
            *(tokens_BK.data_ptr(), B * K, K, self._sentences.data_ptr(), ctypes.addressof(self._sources)),
            *(self._ancestors.data_ptr(), self._length),
        )
        packed.kernels.decoder_step(
            *(ctypes.byref(model), ctypes.byref(cache), ctypes.byref(step)),
            *(_block_rows(B * K), logits.data_ptr()),
        )
        self._length += 1
        return logits

    def _make_room(self, rows: int) -> None:
        """Room for this position of so many hypotheses; what is there stays where it is."""
        room, slots = self._K.shape[1:3]
        if self._length < room and rows <= slots:
            return
        room, slots = max(ROOM, room if self._length < room else 2 * room), max(rows, slots)
        self._K, self._V = _grown(self._K, room, slots), _grown(self._V, room, slots)
        self._ancestors = F.pad(self._ancestors, (0, room - self._ancestors.shape[1])).contiguous()

    @torch.inference_mode()
    def reorder(self, sentences_B: Int64[Tensor, "B2"], parents_BK: Int64[Tensor, "B2 K2"]) -> None:
        """Keeps the sentences named, and makes hypothesis j of each go on from old hypothesis parents[j]."""
        rows = (sentences_B[:, None] * self._hypotheses + parents_BK).reshape(-1)
        self._ancestors = self._ancestors.index_select(0, rows)
        self._sentences = self._sentences.index_select(0, sentences_B)
        self._hypotheses = parents_BK.shape[1]


def _grown(old: Tensor, room: int, slots: int) -> Tensor:
    new = old.new_empty(len(old), room, slots, old.shape[3])
    new[:, : old.shape[1], : old.shape[2]] = old
    return new


def _groups(lengths: Sequence[int]) -> list[int]:
    """The first sentence of each group of about BLOCK_ROWS positions, and the number of sentences."""
    firsts, rows = [0], 0
    for number, length in enumerate(lengths):
        if rows > 0 and rows + length > BLOCK_ROWS:
            firsts.append(number)
            rows = 0
        rows += length
    firsts.append(len(lengths))
    assert all(first < second for first, second in pairwise(firsts))
    return firsts


def _block_rows(rows: int) -> int:
    """So that blocks are of one size and every thread has as many."""
    threads = torch.get_num_threads()
    blocks = -(-rows // BLOCK_ROWS)
    blocks = -(-blocks // threads) * threads if rows >= threads * ROWS_AT_ONCE else 1
    each = -(-rows // blocks)
    return -(-each // ROWS_AT_ONCE) * ROWS_AT_ONCE
