"""Parameters and floating-point operations, counted from the configuration alone.

Paper: 3, Table 2 (training cost), Table 3 (params)
Silent: how operations are counted (here: 2 for each multiply-add of a matrix product, all else left out, as is
usual; a training step is three forward passes: forward, and two products of the same size backward).
"""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.model.config import ModelConfig


@dataclass(frozen=True)
class ParameterCount:
    """Parameters by kind."""

    embeddings: int
    attention: int
    feed_forward: int
    norms: int

    @property
    def total(self) -> int:
        """All parameters."""
        return self.embeddings + self.attention + self.feed_forward + self.norms


def attention_parameters(config: ModelConfig) -> int:
    """W^Q, W^K, W^V, W^O of one multi-head attention, without biases (3.2.2)."""
    return 2 * config.d_model * config.h * (config.d_k + config.d_v)


def feed_forward_parameters(config: ModelConfig) -> int:
    """W_1, b_1, W_2, b_2 (3.3)."""
    return 2 * config.d_model * config.d_ff + config.d_ff + config.d_model


def count_parameters(config: ModelConfig) -> ParameterCount:
    """Parameters of `Transformer(config)` made of the paper's parts."""
    matrices = config.vocab_size
    matrices += 0 if config.shared_embeddings else config.source_rows
    matrices += 0 if config.tied_output else config.vocab_size
    return ParameterCount(
        embeddings=matrices * config.d_model,
        attention=3 * config.N * attention_parameters(config),
        feed_forward=2 * config.N * feed_forward_parameters(config),
        norms=5 * config.N * 2 * config.d_model,
    )


def attention_flops(config: ModelConfig, queries: int, keys: int) -> int:
    """One multi-head attention of `queries` positions over `keys` positions, masked products included."""
    width_k, width_v = config.h * config.d_k, config.h * config.d_v
    projections = queries * (width_k + width_v) + keys * (width_k + width_v)
    return 2 * config.d_model * projections + 2 * queries * keys * (width_k + width_v)


def forward_flops(config: ModelConfig, source_length: int, target_length: int) -> int:
    """Operations of one forward pass over one pair, output map included."""
    S, T = source_length, target_length
    feed_forward = 4 * config.d_model * config.d_ff
    encoder = attention_flops(config, S, S) + S * feed_forward
    decoder = attention_flops(config, T, T) + attention_flops(config, T, S) + T * feed_forward
    return config.N * (encoder + decoder) + 2 * T * config.d_model * config.vocab_size


def training_flops(config: ModelConfig, source_length: int, target_length: int) -> int:
    """Operations of forward and backward over one pair."""
    return 3 * forward_flops(config, source_length, target_length)
