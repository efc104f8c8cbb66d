"""Small random models that depart from the paper's, for the tests that hold for every departure."""

from __future__ import annotations

import torch
from random_models import build as build_with_parts

from dragoman.model.config import ModelConfig
from dragoman.model.position import INITIAL_LENGTH, SinusoidalPosition, sinusoids
from dragoman.model.transformer import Transformer
from dragoman.recipe import DepartureSection
from dragoman.variants.block_sinusoids import BlockSinusoidalPosition
from dragoman.variants.departures import (
    GEGLU,
    GLU,
    AttentionDropout,
    BlockSinusoids,
    DecoderOnly,
    Departure,
    EncoderOnly,
    EndStart,
    FeedForwardDropout,
    FinalNorm,
    GroupedQuery,
    LearnedPositions,
    MultiQuery,
    NormEpsilon,
    OutputBias,
    PaddingStart,
    PreNorm,
    ProjectionBiases,
    QueryKeyNorm,
    RelativePositions,
    RMSNorm,
    Rope,
    SwiGLU,
    TargetSpace,
    UnbiasedNorm,
    ZeroStart,
)
from dragoman.variants.parts import Model, parts_of
from dragoman.variants.parts import build as build_model
from dragoman.variants.rope import Rotation, rotations
from dragoman.variants.search_rules import LengthLimit, PowerPenalty
from dragoman.variants.training_rules import (
    Clipping,
    CosineDecay,
    LinearDecay,
    MovingAverage,
    SmoothingOverAll,
    SmoothingWithoutPadding,
)

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
    "of tensor2tensor": (
        PreNorm(),
        AttentionDropout(P_drop=0.1),
        FeedForwardDropout(P_drop=0.1),
        BlockSinusoids(wavelengths="tensor2tensor"),
        ZeroStart(),
        TargetSpace(),
    ),
    "norm_epsilon": (NormEpsilon(epsilon=0.1),),
    "rms_norm and norm_epsilon": (RMSNorm(), NormEpsilon(epsilon=0.1)),
    "unbiased_norm": (UnbiasedNorm(),),
    "of the Annotated Transformer": (PreNorm(), UnbiasedNorm(), ProjectionBiases(), OutputBias()),
    "end_start": (EndStart(),),
    "padding_start": (PaddingStart(),),
    "zero_start": (ZeroStart(),),
    "zero_start and output_bias": (ZeroStart(), OutputBias()),
    "target_space": (TargetSpace(),),
}
# The kernels serve these too: only a number is another.
SERVED = {"norm_epsilon"}
# The models of one stack: with the paper's parts, and with others.
ONE_STACK: dict[str, tuple[Departure, ...]] = {
    "decoder_only": (DecoderOnly(),),
    "decoder_only of today": (DecoderOnly(), *EACH["of today"]),
    "decoder_only and more": (DecoderOnly(), *EACH["relative_positions and more"], OutputBias()),
    "encoder_only": (EncoderOnly(share=0.3),),
    "encoder_only of today": (
        EncoderOnly(),
        PreNorm(),
        RMSNorm(),
        SwiGLU(d_ff="two_thirds"),
        Rope(),
        MultiQuery(),
    ),
    "encoder_only and more": (
        EncoderOnly(),
        LearnedPositions(length=300),
        GEGLU(d_ff="kept"),
        ProjectionBiases(),
        OutputBias(),
        AttentionDropout(P_drop=0.1),
    ),
}
# Where a test is long: each departure by itself, and one model of many.
FEWER = [name for name, made in EACH.items() if len(made) == 1 or name == "of today"]
# Departures of training and of search: each by itself, with numbers that show in a short run.
RULES: dict[str, DepartureSection] = {
    "smoothing_over_all": DepartureSection(training=(SmoothingOverAll(),)),
    "smoothing_without_padding": DepartureSection(training=(SmoothingWithoutPadding(),)),
    "moving_average": DepartureSection(training=(MovingAverage(share=0.3),)),
    "linear_decay": DepartureSection(training=(LinearDecay(),)),
    "cosine_decay": DepartureSection(training=(CosineDecay(to=0.1),)),
    "clipping": DepartureSection(training=(Clipping(norm=0.3),)),
    "power_penalty": DepartureSection(search=(PowerPenalty(),)),
    "length_limit": DepartureSection(search=(LengthLimit(times=2.0, plus=1),)),
}
SECTIONS = {name: DepartureSection(architecture=EACH[name]) for name in FEWER} | RULES
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
    _make_tables_exact(model, dtype)
    return model


def build_one_stack(
    departures: tuple[Departure, ...],
    config: ModelConfig = CONFIG,
    *,
    seed: int = 3,
    dtype: torch.dtype = torch.float64,
) -> Model:
    """The same of a model of one stack."""
    model = build_model(config, departures, seed=seed).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.3 * noise.to(dtype))
    _make_tables_exact(model, dtype)
    return model.eval()


def _make_tables_exact(model: torch.nn.Module, dtype: torch.dtype) -> None:
    for module in model.modules():
        if type(module) is SinusoidalPosition:
            module.table = sinusoids(INITIAL_LENGTH, module.d_model).to(dtype)
        if isinstance(module, BlockSinusoidalPosition):
            module.table = module.computed(INITIAL_LENGTH).to(dtype)
        if isinstance(module, Rotation):
            module.table = rotations(INITIAL_LENGTH, module.d_k, module.base).to(dtype)
