"""Models drawn wide, for comparing the kernels in C++ with what they stand for."""

from __future__ import annotations

import pytest
import torch

from dragoman.model.config import ModelConfig
from dragoman.model.transformer import Transformer
from dragoman.native import kernels

compiled = kernels()


def served(products: str) -> object:
    """A parameter for tests of this number format of products; skipped where the processor has none."""
    lacks = compiled is None or products not in compiled.formats
    return pytest.param(
        products, marks=pytest.mark.skipif(lacks, reason=f"no products of {products} here"), id=products
    )


FORMATS = [served(products) for products in ("fp32", "bf16", "int8")]

V = 70


def wide_model(**sizes: object) -> Transformer:
    """Weights drawn wide, every bias and gain other than at the start."""
    model = Transformer(ModelConfig.tiny(vocab_size=V, **sizes), seed=3).eval()
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(1.7)
            else:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=draw))
    return model
