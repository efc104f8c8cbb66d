"""Initial values of the weights.

Paper: none (the text names no initializer)
Silent: all of it; as the authors' tensor2tensor when the paper appeared (June 2017, `transformer_base`): Glorot uniform
(`uniform_unit_scaling`, gain 1) by the sizes of what it stored as one matrix: W^Q, W^K and W^V of self-attention
together, W^K and W^V of attention to the source together, all heads of each; embeddings normal with deviation
d_model^-0.5; biases 0; LayerNorm gain 1, bias 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.embedding import Embedding
from dragoman.model.feed_forward import FeedForward
from dragoman.model.layers import DecoderLayer


@runtime_checkable
class InitializesItself(Protocol):
    """A part of another folder that has a rule of its own for its initial weights."""

    def initialize(self, generator: torch.Generator) -> None:
        """Sets the part's own weights, but not those of parts in it."""


def glorot_uniform_(matrices: Sequence[Tensor], generator: torch.Generator) -> None:
    """U(-a, a) with a = sqrt(6 / (rows + columns)) of the matrices (d_out, d_in) as one (Glorot & Bengio 2010)."""
    bound = math.sqrt(6.0 / (sum(len(matrix) for matrix in matrices) + matrices[0].shape[1]))
    for matrix in matrices:
        matrix.uniform_(-bound, bound, generator=generator)


@torch.no_grad()
def initialize(model: nn.Module, seed: int) -> None:
    """Sets every weight of the model from the seed, in the order of `model.modules()`.

    Weights of parts that are not of this folder are left as their own constructors set them, unless the part
    `InitializesItself`.
    """
    generator = torch.Generator().manual_seed(seed)
    to_source = {id(layer.cross_attention) for layer in model.modules() if isinstance(layer, DecoderLayer)}
    for module in model.modules():
        match module:
            case InitializesItself():
                module.initialize(generator)
            case MultiHeadAttention():
                W_Q, W_K, W_V, W_O = module.matrices()
                together = ([W_Q], [W_K, W_V]) if id(module) in to_source else ([W_Q, W_K, W_V],)
                for matrices in (*together, [W_O]):
                    glorot_uniform_(matrices, generator)
            case FeedForward():
                glorot_uniform_([module.W_1], generator)
                glorot_uniform_([module.W_2], generator)
                module.b_1.zero_()
                module.b_2.zero_()
            case Embedding():
                deviation = module.weight.shape[1] ** -0.5
                module.weight.normal_(0.0, deviation, generator=generator)
            case nn.LayerNorm():
                module.reset_parameters()
            case _:
                pass
