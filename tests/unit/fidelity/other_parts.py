"""Parts that are not the paper's, as others have them: what the probes must tell from it, each by its own name."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention, attention_weights
from dragoman.model.config import ModelShape
from dragoman.model.dropout import dropout
from dragoman.model.embedding import Embedding
from dragoman.model.feed_forward import FeedForward
from dragoman.model.position import SinusoidalPosition
from dragoman.model.residual import PostNorm

SubLayer = Callable[[Tensor], Tensor]


class PreNorm(PostNorm):
    """x + Dropout(Sublayer(LayerNorm(x)))."""

    def forward(self, x: Tensor, sublayer: SubLayer) -> Tensor:
        return x + dropout(sublayer(self.norm(x)), self.P_drop, self.training)


class SandwichNorm(PostNorm):
    """LayerNorm(x + Sublayer(LayerNorm(x)))."""

    def forward(self, x: Tensor, sublayer: SubLayer) -> Tensor:
        return self.norm(x + dropout(sublayer(self.norm(x)), self.P_drop, self.training))


class InnerNorm(PostNorm):
    """x + LayerNorm(Sublayer(x))."""

    def forward(self, x: Tensor, sublayer: SubLayer) -> Tensor:
        return x + self.norm(dropout(sublayer(x), self.P_drop, self.training))


class NoNorm(PostNorm):
    """x + Dropout(Sublayer(x))."""

    def forward(self, x: Tensor, sublayer: SubLayer) -> Tensor:
        return x + dropout(sublayer(x), self.P_drop, self.training)


class Weighted(PostNorm):
    """LayerNorm(2 x + Sublayer(x)), as DeepNorm weighs the two."""

    def forward(self, x: Tensor, sublayer: SubLayer) -> Tensor:
        return self.norm(2.0 * x + dropout(sublayer(x), self.P_drop, self.training))


class DroppedSum(PostNorm):
    """LayerNorm(Dropout(x + Sublayer(x)))."""

    def forward(self, x: Tensor, sublayer: SubLayer) -> Tensor:
        return self.norm(dropout(x + sublayer(x), self.P_drop, self.training))


class RootMeanSquare(nn.Module):
    """x / sqrt(mean(x^2) + eps), times a gain."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * x * (x.square().mean(dim=-1, keepdim=True) + 1e-6).rsqrt()


class OwnDeviation(nn.Module):
    """(x - mean) / (deviation + eps), the deviation counted by d_model - 1, as the annotated transformer has it."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        centered = x - x.mean(dim=-1, keepdim=True)
        return self.gain * centered / (x.std(dim=-1, keepdim=True) + 1e-6) + self.bias


def with_norm(norm: Callable[[int], nn.Module]) -> Callable[[ModelShape], PostNorm]:
    """The paper's residual with another norm in it."""
    return lambda shape: PostNorm(shape, norm)


class Unscaled(MultiHeadAttention):
    """softmax(Q K^T) V."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__(
            shape, lambda Q, K, V, mask=None: attention_weights(Q * math.sqrt(Q.shape[-1]), K, mask) @ V
        )


class Biased(MultiHeadAttention):
    """A bias on each of the queries, keys and values."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__(shape)
        self.b = nn.Parameter(torch.zeros(sum(self.widths())))

    def self_projections(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.queries(x), *self.keys_values(x)

    def queries(self, x: Tensor) -> Tensor:
        return super().queries(x) + self._of_heads(0, self.d_k)

    def keys_values(self, y: Tensor) -> tuple[Tensor, Tensor]:
        K, V = super().keys_values(y)
        return K + self._of_heads(1, self.d_k), V + self._of_heads(2, self.d_v)

    def _of_heads(self, which: int, width: int) -> Tensor:
        return self.b.split_with_sizes(self.widths())[which].view(self.h, 1, width)


class OneKeyHead(nn.Module):
    """Keys and values of one head for all queries (multi-query attention); without `matrices`."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.inner = MultiHeadAttention(shape)
        self.h, self.d_k, self.d_v, self.attend = shape.h, shape.d_k, shape.d_v, self.inner.attend

    def forward(self, x: Tensor, y: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        K, V = (t[:, :1].expand(-1, self.h, -1, -1) for t in self.inner.keys_values(x if y is None else y))
        return self.inner.output(self.attend(self.inner.queries(x), K, V, mask))


class Turned(MultiHeadAttention):
    """Queries and keys turned by their positions: rotary positions in all but the details."""

    def forward(self, x: Tensor, y: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        K, V = self.keys_values(x if y is None else y)
        Q = self.queries(x)
        if y is None:
            Q, K = _turned(Q), _turned(K)
        return self.output(self.attend(Q, K, V, mask))


def _turned(x: Tensor) -> Tensor:
    angle = torch.arange(x.shape[2], dtype=x.dtype)[:, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.cat([even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()], dim=-1)


class Smooth(FeedForward):
    """GELU in place of max(0, x)."""

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x @ self.W_1.T + self.b_1) @ self.W_2.T + self.b_2


class DroppedInside(FeedForward):
    """Dropout after max(0, x), as tensor2tensor has it today."""

    def forward(self, x: Tensor) -> Tensor:
        inner = dropout(F.relu(x @ self.W_1.T + self.b_1), 0.5, self.training)
        return inner @ self.W_2.T + self.b_2


class Gated(nn.Module):
    """(swish(x W) * x V) U, without biases."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        d, f = shape.d_model, shape.d_ff
        self.W, self.V, self.U = (nn.Parameter(torch.randn(*s)) for s in ((f, d), (f, d), (d, f)))

    def forward(self, x: Tensor) -> Tensor:
        return (F.silu(x @ self.W.T) * (x @ self.V.T)) @ self.U.T


class PlainEmbedding(Embedding):
    """Rows as they are."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__(vocab_size, d_model)
        self.scale = 1.0


class ZeroStart(Embedding):
    """A zero vector for BOS."""

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) * (ids != 2)[..., None]


class Table(SinusoidalPosition):
    """Other rows, made by a function of length and width."""

    def __init__(self, d_model: int, make: Callable[[int, int], Tensor]) -> None:
        super().__init__(d_model)
        self.table = make(512, d_model).float()


def sines(length: int, d_model: int, *, cosines_first: bool = False, steps: int | None = None) -> Tensor:
    """All sines, then all cosines; or the other way round."""
    half = d_model // 2
    angle = torch.arange(length, dtype=torch.float64)[:, None] / 10000.0 ** (
        torch.arange(half, dtype=torch.float64) / (steps or half)
    )
    both = [angle.cos(), angle.sin()] if cosines_first else [angle.sin(), angle.cos()]
    return torch.cat(both, dim=-1)


def with_table(make: Callable[[int, int], Tensor]) -> Callable[[int], Table]:
    """Positions from such a table."""
    return lambda d_model: Table(d_model, make)


def noise(length: int, d_model: int) -> Tensor:
    """As learned positions begin."""
    return torch.randn(length, d_model, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def replaced(module: nn.Module, name: str, part: nn.Module) -> nn.Module:
    """A copy of the module with another part at a place."""
    changed = copy.deepcopy(module)
    holder, _, last = name.rpartition(".")
    setattr(changed.get_submodule(holder), last, part)
    return changed
