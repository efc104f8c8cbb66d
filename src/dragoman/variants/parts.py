"""The parts of a Transformer that departs from the paper's, and the models made of them.

Paper: none (departures)

Each departure says its part of a `_Plan`; the parts are made of the whole, so that the order in which departures are
listed does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, assert_never

from torch import nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.config import ModelConfig, ModelShape
from dragoman.model.embedding import Embedding
from dragoman.model.feed_forward import FeedForward
from dragoman.model.parts import PAPER, Build, Parts
from dragoman.model.residual import LAYER_NORM_EPSILON, PostNorm, layer_norm
from dragoman.model.transformer import INITIAL_SEED, Transformer
from dragoman.variants import departures as asked
from dragoman.variants.attention import NONE, OpenAttention, OpenAttentionToSource, Pieces
from dragoman.variants.block_sinusoids import BlockSinusoidalPosition
from dragoman.variants.decoder_only import DecoderOnly
from dragoman.variants.departures import Departure, check_departures, stack_of
from dragoman.variants.dropouts import DroppedFeedForward
from dragoman.variants.encoder_only import EncoderOnly
from dragoman.variants.final_norm import ending_in
from dragoman.variants.gated import GATES, GatedFeedForward, gated_width
from dragoman.variants.learned_position import LearnedPosition
from dragoman.variants.no_position import NoPosition
from dragoman.variants.output_bias import BiasedEmbedding
from dragoman.variants.pre_norm import PreNorm
from dragoman.variants.query_key_norm import QueryKeyNorm
from dragoman.variants.relative_position import RelativePositions
from dragoman.variants.rms_norm import rms_norm
from dragoman.variants.rope import Rotation
from dragoman.variants.start import STARTS
from dragoman.variants.target_space import TargetSpace
from dragoman.variants.unbiased_norm import UnbiasedNorm

Norm = Callable[[int], nn.Module]
Model = Transformer | DecoderOnly | EncoderOnly


def _feed_forward(shape: ModelShape, P_inner: float) -> nn.Module:
    return FeedForward(shape) if P_inner == 0.0 else DroppedFeedForward(shape, P_inner)


@dataclass(frozen=True)
class _Plan:
    """What the departures have to say, each place as the paper has it until one says otherwise.

    Attributes:
        norm: (width, epsilon) -> norm, wherever one stands.
        epsilon: of each.
        residual: what joins a sub-layer to its input, made with a norm.
        ends_in_norm: a norm follows the last layer of each stack.
        feed_forward: the position-wise network, made with a probability of dropout inside.
        P_inner: that probability.
        encoder, decoder, across: pieces of attention in the encoder, in the decoder over itself, and over the encoder's
            output.
        start: what the decoder begins with, of `STARTS`.
        has_output_bias: on the logits.
        encoder_start: what embedded sources go through.
        position: d_model -> what adds positions to embeddings.
    """

    norm: Callable[[int, float], nn.Module] = layer_norm
    epsilon: float = LAYER_NORM_EPSILON
    residual: Callable[[ModelShape, Norm], nn.Module] = PostNorm
    ends_in_norm: bool = False
    feed_forward: Callable[[ModelShape, float], nn.Module] = _feed_forward
    P_inner: float = 0.0
    encoder: Pieces = NONE
    decoder: Pieces = NONE
    across: Pieces = NONE
    start: str | None = None
    has_output_bias: bool = False
    encoder_start: Build = PAPER.encoder_start
    position: Callable[[int], nn.Module] = PAPER.position

    def with_attention_over_itself(self, **pieces: Any) -> _Plan:
        """These pieces in the encoder's and the decoder's attention over itself."""
        return replace(self, encoder=replace(self.encoder, **pieces), decoder=replace(self.decoder, **pieces))

    def with_attention_in_decoder(self, **pieces: Any) -> _Plan:
        """These pieces in both of the decoder's attentions."""
        return replace(self, decoder=replace(self.decoder, **pieces), across=replace(self.across, **pieces))

    def with_attention_everywhere(self, **pieces: Any) -> _Plan:
        """These pieces in all three."""
        plan = self.with_attention_in_decoder(**pieces)
        return replace(plan, encoder=replace(self.encoder, **pieces))

    def parts(self) -> Parts:
        def norm(d_model: int) -> nn.Module:
            return self.norm(d_model, self.epsilon)

        plain, biased = (Embedding, BiasedEmbedding) if self.start is None else STARTS[self.start]
        return replace(
            PAPER,
            attention=_attention(self.encoder, OpenAttention),
            decoder_attention=_attention(self.decoder, OpenAttention),
            cross_attention=_attention(self.across, OpenAttentionToSource),
            feed_forward=lambda shape: self.feed_forward(shape, self.P_inner),
            embedding=plain,
            output=biased if self.has_output_bias else plain,
            encoder_start=self.encoder_start,
            position=self.position,
            residual=lambda shape: self.residual(shape, norm),
            stack_end=ending_in(norm) if self.ends_in_norm else PAPER.stack_end,
        )


def _attention(pieces: Pieces, kind: type[OpenAttention]) -> Build:
    """The paper's own where there is nothing to put into it."""
    return MultiHeadAttention if pieces == NONE else lambda shape: kind(shape, pieces)


def parts_of(departures: Sequence[Departure]) -> Parts:
    """The paper's parts but for what the departures replace. Whether they go together is not looked at here."""
    return reduce(_with, departures, _Plan()).parts() if departures else PAPER


def for_kernels(departures: Sequence[Departure]) -> bool:
    """Whether the kernels in C++, made for the paper's parts, compute these too: only a number is another."""
    return all(isinstance(departure, asked.NormEpsilon) for departure in departures)


def _with(plan: _Plan, departure: Departure) -> _Plan:
    match departure:
        case asked.PreNorm():
            return replace(plan, residual=PreNorm, ends_in_norm=True)
        case asked.RMSNorm():
            return replace(plan, norm=rms_norm)
        case asked.GLU() | asked.GEGLU() | asked.SwiGLU():
            gate, rule = GATES[departure.name], departure.d_ff
            return replace(
                plan,
                feed_forward=lambda shape, P_inner: GatedFeedForward(
                    shape, gate, gated_width(shape.d_ff, rule), P_inner
                ),
            )
        case asked.Rope(base=base):
            plan = plan.with_attention_over_itself(rotation=lambda shape: Rotation(shape.d_k, base))
            return replace(plan, position=NoPosition)
        case asked.GroupedQuery(groups=groups):
            return plan.with_attention_in_decoder(groups=groups)
        case asked.MultiQuery():
            return plan.with_attention_everywhere(groups=1)
        case asked.AttentionDropout(P_drop=P_drop):
            return plan.with_attention_everywhere(P_weights=P_drop)
        case asked.FeedForwardDropout(P_drop=P_drop):
            return replace(plan, P_inner=P_drop)
        case asked.LearnedPositions(length=length):
            return replace(plan, position=lambda d_model: LearnedPosition(d_model, length))
        case asked.BlockSinusoids(wavelengths=wavelengths):
            return replace(plan, position=lambda d_model: BlockSinusoidalPosition(d_model, wavelengths))
        case asked.FinalNorm():
            return replace(plan, ends_in_norm=True)
        case asked.ProjectionBiases():
            return plan.with_attention_everywhere(has_biases=True)
        case asked.OutputBias():
            return replace(plan, has_output_bias=True)
        case asked.QueryKeyNorm(length=length):
            return plan.with_attention_everywhere(norm=lambda shape: QueryKeyNorm(shape.d_k, length))
        case asked.RelativePositions(farthest=farthest):
            plan = plan.with_attention_over_itself(relative=lambda shape: RelativePositions(shape, farthest))
            return replace(plan, position=NoPosition)
        case asked.NormEpsilon(epsilon=epsilon):
            return replace(plan, epsilon=epsilon)
        case asked.UnbiasedNorm():
            return replace(plan, norm=UnbiasedNorm)
        case asked.EndStart() | asked.PaddingStart() | asked.ZeroStart():
            return replace(plan, start=departure.name)
        case asked.TargetSpace():
            return replace(plan, encoder_start=TargetSpace)
        case asked.DecoderOnly() | asked.EncoderOnly():
            return plan  # its one stack is made of the same parts
        case _:
            assert_never(departure)


def build(
    config: ModelConfig, departures: Sequence[Departure] = (), *, seed: int | None = INITIAL_SEED
) -> Model:
    """A Transformer with these departures, or the one stack that they leave of it; see `Transformer` for the rest.

    Raises:
        ConfigError: the departures do not go together, or not with these sizes.
    """
    check_departures(departures, config)
    parts = parts_of(departures)
    match stack_of(departures):
        case asked.DecoderOnly():
            return DecoderOnly(config, parts, seed=seed)
        case asked.EncoderOnly():
            return EncoderOnly(config, parts, seed=seed)
        case None:
            return Transformer(config, parts, seed=seed)
