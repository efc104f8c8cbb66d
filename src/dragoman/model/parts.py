"""The parts a Transformer is made of, and the paper's set of them.

Paper: 3
A part is a constructor taking the sizes; another set (never in this folder) replaces one or several by
parts of the same signature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.config import ModelShape
from dragoman.model.embedding import Embedding
from dragoman.model.feed_forward import FeedForward
from dragoman.model.position import SinusoidalPosition
from dragoman.model.residual import PostNorm

# Any, not nn.Module: a part's methods beyond forward (keys_values, rows, ...) are part of its signature.
Build = Callable[[ModelShape], Any]


@dataclass(frozen=True)
class Parts:
    """One constructor for each place in Figure 1.

    Attributes:
        attention: multi-head attention, in all three places (3.2.2) unless one of the next two is given.
        decoder_attention: the decoder's over itself.
        cross_attention: the decoder's over the encoder's output.
        feed_forward: the position-wise network (3.3).
        residual: what joins a sub-layer to its input (3.1, 5.4).
        encoder_start: what embedded sources go through before positions are added (3.4: nothing).
        stack_end: what follows the last layer of each stack (3.1: nothing).
        embedding: (vocab_size, d_model) -> token embeddings (3.4).
        output: (vocab_size, d_model) -> the embedding whose matrix is the output map's too (3.4); as `embedding` where
            None.
        position: d_model -> adds positions to embeddings (3.5).
    """

    attention: Build = MultiHeadAttention
    decoder_attention: Build | None = None
    cross_attention: Build | None = None
    feed_forward: Build = FeedForward
    residual: Build = PostNorm
    encoder_start: Build = nn.Identity
    stack_end: Build = nn.Identity
    embedding: Callable[[int, int], Any] = Embedding
    output: Callable[[int, int], Any] | None = None
    position: Callable[[int], Any] = SinusoidalPosition


PAPER = Parts()
