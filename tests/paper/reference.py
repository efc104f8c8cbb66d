"""Sections 3.1 to 3.5, and the formulas of 5.3, 5.4 and 6.1, from the text of the paper alone.

NumPy, float64, one sentence at a time, a loop wherever the text says "each". It imports nothing of dragoman,
so that agreement means something.

Where the text is silent: a query that may attend to nothing gets zeros; LayerNorm is that of Ba et al. 2016
with gain and bias; label smoothing shares eps_ls among the wrong classes, as the authors' code does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]  # True = may attend


@dataclass(frozen=True)
class Heads:
    """The projection matrices of 3.2.2, as the paper has them: W_Q[i] is d_model x d_k."""

    W_Q: Sequence[Array]
    W_K: Sequence[Array]
    W_V: Sequence[Array]
    W_O: Array  # h*d_v x d_model


@dataclass(frozen=True)
class Network:
    """The feed-forward network of 3.3: W_1 is d_model x d_ff."""

    W_1: Array
    b_1: Array
    W_2: Array
    b_2: Array


@dataclass(frozen=True)
class Norm:
    """Layer normalization."""

    gain: Array
    bias: Array
    epsilon: float


@dataclass(frozen=True)
class Layer:
    """An encoder layer (one attention, two norms) or a decoder layer (two attentions, three norms)."""

    attentions: Sequence[Heads]
    network: Network
    norms: Sequence[Norm]


@dataclass(frozen=True)
class Model:
    """All that Figure 1 shows. Rows of the embedding matrices are tokens."""

    source_embedding: Array
    target_embedding: Array
    output: Array
    encoder: Sequence[Layer]
    decoder: Sequence[Layer]


def softmax(scores: Array) -> Array:
    """Of one row; -inf has weight 0; zeros where everything is -inf."""
    highest = scores.max()
    if highest == -np.inf:
        return np.zeros_like(scores)
    powers = np.exp(scores - highest)
    return powers / powers.sum()


def attention_weights(Q: Array, K: Array, allowed: Mask | None = None) -> Array:
    """The softmax of Eq. 1, illegal connections set to -inf before it (3.2.3)."""
    d_k = Q.shape[1]
    scores = np.array([[float(q @ k) / math.sqrt(d_k) for k in K] for q in Q])
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    return np.array([softmax(row) for row in scores])


def attention(Q: Array, K: Array, V: Array, allowed: Mask | None = None) -> Array:
    """Eq. 1: Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V."""
    return attention_weights(Q, K, allowed) @ V


def multi_head(x: Array, y: Array, heads: Heads, allowed: Mask | None = None) -> Array:
    """3.2.2: Concat(head_1, ..., head_h) W^O, queries from x, keys and values from y."""
    outputs = [
        attention(x @ W_Q, y @ W_K, y @ W_V, allowed)
        for W_Q, W_K, W_V in zip(heads.W_Q, heads.W_K, heads.W_V, strict=True)
    ]
    return np.concatenate(outputs, axis=1) @ heads.W_O


def feed_forward(x: Array, network: Network) -> Array:
    """Eq. 2: FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, at each position."""
    rows = [np.maximum(0.0, row @ network.W_1 + network.b_1) @ network.W_2 + network.b_2 for row in x]
    return np.array(rows)


def layer_norm(x: Array, norm: Norm) -> Array:
    """Of each position: less its mean, by its standard deviation, times gain, plus bias."""
    rows = []
    for row in x:
        mean = row.sum() / len(row)
        variance = ((row - mean) ** 2).sum() / len(row)
        rows.append((row - mean) / math.sqrt(variance + norm.epsilon) * norm.gain + norm.bias)
    return np.array(rows)


def position(length: int, d_model: int) -> Array:
    """3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(the same)."""
    PE = np.empty((length, d_model))
    for pos in range(length):
        for i in range(d_model // 2):
            angle = pos / 10000 ** (2 * i / d_model)
            PE[pos, 2 * i] = math.sin(angle)
            PE[pos, 2 * i + 1] = math.cos(angle)
    return PE


def embed(ids: Sequence[int], E: Array) -> Array:
    """3.4 and 3.5: the rows of E times sqrt(d_model), plus the positions."""
    d_model = E.shape[1]
    rows = np.array([E[token] * math.sqrt(d_model) for token in ids])
    return rows + position(len(ids), d_model)


def encode(ids: Sequence[int], model: Model, is_token: Mask) -> Array:
    """3.1: each sub-layer's output is LayerNorm(x + Sublayer(x))."""
    x = embed(ids, model.source_embedding)
    allowed = np.tile(is_token, (len(ids), 1))
    for layer in model.encoder:
        x = layer_norm(x + multi_head(x, x, layer.attentions[0], allowed), layer.norms[0])
        x = layer_norm(x + feed_forward(x, layer.network), layer.norms[1])
    return x


def decode(ids: Sequence[int], memory: Array, model: Model, is_token: Mask) -> Array:
    """3.1 and 3.2.3: position i sees positions up to i; then the encoder's output; then the network."""
    x = embed(ids, model.target_embedding)
    T = len(ids)
    leftward = np.array([[j <= i for j in range(T)] for i in range(T)])
    allowed = np.tile(is_token, (T, 1))
    for layer in model.decoder:
        x = layer_norm(x + multi_head(x, x, layer.attentions[0], leftward), layer.norms[0])
        x = layer_norm(x + multi_head(x, memory, layer.attentions[1], allowed), layer.norms[1])
        x = layer_norm(x + feed_forward(x, layer.network), layer.norms[2])
    return x


def logits(source: Sequence[int], target: Sequence[int], model: Model, pad_id: int) -> Array:
    """Figure 1 up to the softmax; the output map is the embedding matrix, not scaled (3.4)."""
    is_token = np.array([token != pad_id for token in source])
    return decode(target, encode(source, model, is_token), model, is_token) @ model.output.T


def learning_rate(step: int, d_model: int, warmup_steps: int = 4000) -> float:
    """Eq. 3 (5.3): d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5)."""
    return float(d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5))


def smoothed_loss(row: Array, target: int, eps_ls: float) -> float:
    """5.4: cross-entropy of one token's logits with 1 - eps_ls on the target and the rest shared."""
    V = len(row)
    log_p = row - row.max() - math.log(np.exp(row - row.max()).sum())
    wanted = np.full(V, eps_ls / (V - 1))
    wanted[target] = 1.0 - eps_ls
    return float(-(wanted * log_p).sum())


def length_penalty(n: int, alpha: float) -> float:
    """6.1, after Wu et al. 2016 (eq. 14): ((5 + n) / 6)^alpha."""
    return float(((5 + n) / 6) ** alpha)
