"""Initial values of the weights.

Paper: none (the text names no initializer)
Silent: all of it; as tensor2tensor `transformer_base_v1`: Glorot uniform (`uniform_unit_scaling`, gain 1) for
each matrix of the paper by its own two sizes, also where several are stored as one; embeddings normal with
deviation d_model^-0.5; biases 0; LayerNorm gain 1, bias 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.embedding import Embedding
from dragoman.model.feed_forward import FeedForward


def glorot_uniform_(matrix: Tensor, generator: torch.Generator) -> None:
    """U(-a, a) with a = sqrt(6 / (rows + columns)) (Glorot & Bengio 2010)."""
    bound = math.sqrt(6.0 / sum(matrix.shape))
    matrix.uniform_(-bound, bound, generator=generator)


@torch.no_grad()
def initialize(model: nn.Module, seed: int) -> None:
    """Sets every weight of the model from the seed, in the order of `model.modules()`.

    Weights of parts that are not of this folder are left as their own constructors set them.
    """
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        match module:
            case MultiHeadAttention():
                for matrix in module.matrices():
                    glorot_uniform_(matrix, generator)
            case FeedForward():
                glorot_uniform_(module.W_1, generator)
                glorot_uniform_(module.W_2, generator)
                module.b_1.zero_()
                module.b_2.zero_()
            case Embedding():
                deviation = module.weight.shape[1] ** -0.5
                module.weight.normal_(0.0, deviation, generator=generator)
            case nn.LayerNorm():
                module.reset_parameters()
            case _:
                pass
