"""Small random models that depart from the paper's, for the tests that hold for every departure."""

from __future__ import annotations

import torch
from random_models import build as build_with_parts

from dragoman.model.config import ModelConfig
from dragoman.model.position import INITIAL_LENGTH
from dragoman.model.transformer import Transformer
from dragoman.variants.block_sinusoids import BlockSinusoidalPosition
from dragoman.variants.departures import (
    GEGLU,
    GLU,
    AttentionDropout,
    BlockSinusoids,
    Departure,
    FeedForwardDropout,
    FinalNorm,
    GroupedQuery,
    LearnedPositions,
    MultiQuery,
    OutputBias,
    PreNorm,
    ProjectionBiases,
    QueryKeyNorm,
    RelativePositions,
    RMSNorm,
    Rope,
    SwiGLU,
)
from dragoman.variants.parts import parts_of
from dragoman.variants.rope import Rotation, rotations

# Each by itself with numbers of its own, and together what asks most of the parts.
EACH: dict[str, tuple[Departure, ...]] = {
    "pre_norm": (PreNorm(),),
    "rms_norm": (RMSNorm(),),
    "pre_norm and rms_norm": (PreNorm(), RMSNorm()),
    "glu": (GLU(d_ff="kept"),),
    "geglu": (GEGLU(d_ff="two_thirds"),),
    "swiglu": (SwiGLU(d_ff="two_thirds"),),
    "rope": (Rope(base=50.0),),
    "grouped_query": (GroupedQuery(groups=2),),
    "multi_query": (MultiQuery(),),
    "rope and multi_query": (Rope(), MultiQuery()),
    "learned_positions": (LearnedPositions(length=300),),
    "block_sinusoids": (BlockSinusoids(wavelengths="tensor2tensor"),),
    "final_norm": (FinalNorm(),),
    "projection_biases": (ProjectionBiases(),),
    "output_bias": (OutputBias(),),
    "of Marian": (BlockSinusoids(wavelengths="paper"), ProjectionBiases(), OutputBias()),
    "query_key_norm": (QueryKeyNorm(length=20),),
    "query_key_norm and rope": (QueryKeyNorm(), Rope(), GroupedQuery(groups=2)),
    "relative_positions": (RelativePositions(farthest=3),),
    "relative_positions and more": (
        RelativePositions(farthest=2),
        GroupedQuery(groups=2),
        QueryKeyNorm(),
        ProjectionBiases(),
        AttentionDropout(P_drop=0.1),
    ),
    "of today": (
        PreNorm(),
        RMSNorm(),
        SwiGLU(d_ff="two_thirds"),
        Rope(),
        GroupedQuery(groups=2),
    ),
    "attention_dropout": (AttentionDropout(),),
    "feed_forward_dropout": (FeedForwardDropout(P_drop=0.2),),
    "of tensor2tensor": (PreNorm(), AttentionDropout(P_drop=0.1), FeedForwardDropout(P_drop=0.1)),
}
# Where a test is long: each departure by itself, and one model of many.
FEWER = [name for name, made in EACH.items() if len(made) == 1 or name == "of today"]
CONFIG = ModelConfig(vocab_size=13, N=2, d_model=12, d_ff=9, h=4, d_k=6, d_v=3, P_drop=0.0)


def build(
    departures: tuple[Departure, ...],
    config: ModelConfig = CONFIG,
    *,
    seed: int = 3,
    dtype: torch.dtype = torch.float64,
) -> Transformer:
    """A model in eval mode none of whose parameters is 0 or 1, tables exact in its number format."""
    model = build_with_parts(config, seed=seed, dtype=dtype, parts=parts_of(departures))
    for module in model.modules():
        if isinstance(module, BlockSinusoidalPosition):
            module.table = module.computed(INITIAL_LENGTH).to(dtype)
        if isinstance(module, Rotation):
            module.table = rotations(INITIAL_LENGTH, module.d_k, module.base).to(dtype)
    return model
