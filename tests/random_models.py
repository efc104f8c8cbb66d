"""Small random models and batches for the tests of the model."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import strategies as st
from torch import Tensor

from dragoman.model.config import ModelConfig
from dragoman.model.parts import PAPER, Parts
from dragoman.model.position import INITIAL_LENGTH, sinusoids
from dragoman.model.transformer import Transformer

# One of each kind: as the paper has it; d_k != d_v; h*d_k != d_model; own matrices for source and output.
CONFIGS = {
    "paper": ModelConfig(vocab_size=13, N=2, d_model=8, d_ff=16, h=2, P_drop=0.0),
    "odd_heads": ModelConfig(vocab_size=11, N=2, d_model=12, d_ff=7, h=3, d_k=5, d_v=2, P_drop=0.0),
    "one_head": ModelConfig(vocab_size=9, N=1, d_model=6, d_ff=10, h=1, d_k=3, d_v=9, P_drop=0.0),
    "untied": ModelConfig(
        vocab_size=10,
        source_vocab_size=14,
        shared_embeddings=False,
        tied_output=False,
        N=2,
        d_model=8,
        d_ff=12,
        h=4,
        P_drop=0.0,
    ),
    "own_source": ModelConfig(
        vocab_size=15, source_vocab_size=8, shared_embeddings=False, N=1, d_model=4, d_ff=6, h=2, P_drop=0.0
    ),
    "own_output": ModelConfig(vocab_size=12, tied_output=False, N=1, d_model=10, d_ff=4, h=5, P_drop=0.0),
}


@st.composite
def configs(draw: st.DrawFn) -> ModelConfig:
    """Any small configuration."""
    size = st.integers(1, 6)
    vocab_size = draw(st.integers(4, 20))
    shared = draw(st.booleans())
    return ModelConfig(
        vocab_size=vocab_size,
        source_vocab_size=None if shared else draw(st.integers(4, 20)),
        shared_embeddings=shared,
        tied_output=draw(st.booleans()),
        N=draw(st.integers(1, 3)),
        d_model=2 * draw(size),
        d_ff=draw(size),
        h=draw(size),
        d_k=draw(size),
        d_v=draw(size),
        P_drop=0.0,
    )


def build(
    config: ModelConfig, *, seed: int = 3, dtype: torch.dtype = torch.float64, parts: Parts = PAPER
) -> Transformer:
    """A model in eval mode none of whose parameters is 0 or 1, positions exact in its number format."""
    model = Transformer(config, parts, seed=seed).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.3 * noise.to(dtype))
    if parts.position is PAPER.position:
        model.position.table = sinusoids(INITIAL_LENGTH, config.d_model).to(dtype)
    return model.eval()


def random_ids(rows: int, lengths: Sequence[int], *, seed: int, pad_id: int = 0) -> Tensor:
    """Tokens 1..rows-1, one row for each length, padded at the end to the longest."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.full((len(lengths), max(lengths)), pad_id)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = torch.randint(1, rows, (length,), generator=generator)
    return ids
