"""A norm after the last layer of each stack, beside those of its layers.

Later: Paszke et al. 2019 (torch.nn.Transformer, which always has one), arXiv:1912.01703
"""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from dragoman.model.parts import Build


def ending_in(norm: Callable[[int], nn.Module]) -> Build:
    """The end of a stack: a norm of its own."""
    return lambda shape: norm(shape.d_model)
