"""Loss and gradient of the paper's model written out, for training on a CPU.

Paper: 3, 5.4

What autograd finds for `Transformer.hidden` and `loss.output_loss`, in fewer passes over memory: sentences lie one after
another without padding, each gradient is written where it belongs, and a sum of two gradients is made by the product
that finds the second. A layer's forward and backward pass stand side by side, equation by equation.

n rows: tokens of all sentences, and a few unused ones at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from dragoman.data.batches import Batch
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.dropout import drawn
from dragoman.model.embedding import Embedding
from dragoman.model.feed_forward import FeedForward
from dragoman.model.layers import DecoderLayer, EncoderLayer
from dragoman.model.packed import has_the_papers_parts
from dragoman.model.residual import PostNorm
from dragoman.model.transformer import Transformer
from dragoman.native import Kernels, Sentences, kernels_for
from dragoman.text.subwords import Subwords
from dragoman.training.loss import Spread, loss_and_gradients, over_the_others
from dragoman.training.products import AS_TORCH, Products

# Numbers of rows are multiples of this: the library of products makes a kernel for each shape it meets.
ROWS = 64


def serves(model: Transformer) -> Kernels | None:
    """The kernels that this needs, where the model is the paper's own and on a CPU; else None."""
    kernels = kernels_for(model.target_embedding.weight)
    return kernels if kernels is not None and has_the_papers_parts(model) else None


@torch.no_grad()
def loss_and_gradient(
    model: Transformer,
    kernels: Kernels,
    batch: Batch,
    eps_ls: float,
    spread: Spread = over_the_others,
    products: Products = AS_TORCH,
) -> tuple[Tensor, Tensor]:
    """Summed smoothed loss and nll of a batch; the gradient of the first is written to each parameter's `grad`.

    Dropout draws from torch's generator in the order in which the model does, but for the tokens alone.

    Args:
        model: in training mode; every parameter has a `grad` of its shape, whose values do not matter.
        kernels: as `serves` gives them.
        batch: padded, as the model takes it.
        eps_ls: label smoothing.
        spread: how it is spread.
        products: multiplies the matrices.
    """
    is_token = batch.target_output_ids != Subwords.PAD_ID
    source = _Side.of(batch.source_ids, batch.source_ids != Subwords.PAD_ID)
    target = _Side.of(batch.target_input_ids, is_token)
    from_source = _EmbeddingPass(model, kernels, cast(Embedding, model.source_embedding), source)
    from_target = _EmbeddingPass(model, kernels, cast(Embedding, model.target_embedding), target)
    config = model.config
    widths = {"h": config.h, "d_k": config.d_k, "d_v": config.d_v}
    in_source = Sentences.of(source.starts, source.starts, causal=False, **widths)
    in_target = Sentences.of(target.starts, target.starts, causal=True, **widths)
    across = Sentences.of(target.starts, source.starts, causal=False, **widths)
    encoders = [
        _EncoderPass(kernels, products, cast(EncoderLayer, layer), in_source) for layer in model.encoder
    ]
    decoders = [_DecoderPass(kernels, products, layer, in_target, across) for layer in model.decoder_layers]

    memory = from_source.forward()
    for encoder in encoders:
        memory = encoder.forward(memory)
    x = from_target.forward()
    for decoder in decoders:
        x = decoder.forward(x, memory)

    found = loss_and_gradients(
        x[: target.used],
        model.output_weight,
        batch.target_output_ids[is_token],
        eps_ls,
        pad_id=Subwords.PAD_ID,
        spread=spread,
        with_gradient=True,
        products=products,
    )
    assert found.by_hidden is not None
    assert found.by_weight is not None

    sums = _WideSums(model.output_weight, found.by_weight)
    dx = F.pad(found.by_hidden, (0, 0, 0, len(x) - target.used))
    d_memory = torch.zeros_like(memory)
    for decoder in reversed(decoders):
        dx = decoder.backward(dx, d_memory)
    from_target.backward(dx, sums)
    for encoder in reversed(encoders):
        d_memory = encoder.backward(d_memory)
    from_source.backward(d_memory, sums)
    sums.write()
    return found.smoothed, found.nll


@dataclass(frozen=True)
class _Side:
    """The tokens of one side of a batch.

    Attributes:
        ids, positions: of each row; unused rows hold padding at position 0.
        starts: first row of each sentence, and the number of rows in use.
    """

    ids: Int64[Tensor, " n"]
    positions: Int64[Tensor, " n"]
    starts: Int64[Tensor, " sentences"]

    @classmethod
    def of(cls, ids: Int64[Tensor, "B L"], is_token: Tensor) -> _Side:
        starts = F.pad(is_token.sum(dim=1).cumsum(0), (1, 0))
        unused = -int(starts[-1]) % ROWS
        positions = torch.arange(ids.shape[1]).expand_as(ids)
        return cls(F.pad(ids[is_token], (0, unused)), F.pad(positions[is_token], (0, unused)), starts)

    @property
    def used(self) -> int:
        return int(self.starts[-1])


class _WideSums:
    """Gradients of embedding matrices, summed in float32 from all the places that use them."""

    def __init__(self, output_weight: Tensor, by_output: Tensor) -> None:
        self._sums = {id(output_weight): (output_weight, by_output)}

    def of(self, weight: Tensor) -> Tensor:
        """Of this matrix; zero at first."""
        if id(weight) not in self._sums:
            self._sums[id(weight)] = (weight, torch.zeros(weight.shape))
        return self._sums[id(weight)][1]

    def write(self) -> None:
        """To the parameters' own gradients."""
        for weight, total in self._sums.values():
            _gradient(weight).copy_(total)


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


class _EmbeddingPass:
    """x = Dropout(E[ids] * sqrt(d_model) + PE) (3.4, 3.5, 5.4)."""

    def __init__(self, model: Transformer, kernels: Kernels, embedding: Embedding, side: _Side) -> None:
        self.kernels, self.embedding, self.side = kernels, embedding, side
        self.table = model.position.rows(int(side.positions.max()) + 1)
        self.P_drop = model.config.P_drop

    def forward(self) -> Float[Tensor, "n d_model"]:
        weight, side = self.embedding.weight, self.side
        self.dropped = drawn(len(side.ids) * weight.shape[1], self.P_drop)
        return self.kernels.embed_forward(
            weight, side.ids, side.positions, self.table, self.embedding.scale, self.dropped
        )

    def backward(self, dx: Tensor, sums: _WideSums) -> None:
        """The gradient of unused rows is zero."""
        total = sums.of(self.embedding.weight)
        self.kernels.embed_backward(dx, self.side.ids, self.embedding.scale, self.dropped, total)


class _ResidualPass:
    """y = LayerNorm(z), z = x + Dropout(f) (3.1, 5.4)."""

    def __init__(self, kernels: Kernels, residual: PostNorm) -> None:
        assert isinstance(residual.norm, nn.LayerNorm)
        self.kernels, self.norm, self.P_drop = kernels, residual.norm, residual.P_drop

    def forward(self, x: Tensor, f: Tensor) -> Tensor:
        self.dropped = drawn(f.numel(), self.P_drop)
        y, *self.saved = self.kernels.residual_forward(
            x, f, self.dropped, self.norm.weight, self.norm.bias, self.norm.eps
        )
        return y

    def backward(self, dy: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients by x and by f."""
        z, mean, deviation = self.saved
        dx, df, d_gain, d_bias = self.kernels.residual_backward(
            dy, z, mean, deviation, self.norm.weight, self.dropped
        )
        _gradient(self.norm.weight).copy_(d_gain)
        _gradient(self.norm.bias).copy_(d_bias)
        return dx, df


class _FeedForwardPass:
    """f = max(0, x W_1 + b_1) W_2 + b_2 (3.3, Eq. 2)."""

    def __init__(self, products: Products, network: FeedForward) -> None:
        self.products, self.network = products, network

    def forward(self, x: Tensor) -> Tensor:
        net = self.network
        self.x, self.a = x, self.products.forward(x, net.W_1, net.b_1).relu_()
        return self.products.forward(self.a, net.W_2, net.b_2)

    def backward(self, df: Tensor, dx: Tensor) -> Tensor:
        """dx, to which the gradient by x is added."""
        net = self.network
        self.products.by_weight(df, self.a, _gradient(net.W_2))
        torch.sum(df, 0, out=_gradient(net.b_2))
        da = torch.ops.aten.threshold_backward(self.products.by_input(df, net.W_2), self.a, 0)
        self.products.by_weight(da, self.x, _gradient(net.W_1))
        torch.sum(da, 0, out=_gradient(net.b_1))
        self.products.add_by_input(dx, da, net.W_1)
        return dx


class _SelfAttentionPass:
    """f = MultiHead(x, x, x) (3.2.2, 3.2.3)."""

    def __init__(
        self, kernels: Kernels, products: Products, attention: MultiHeadAttention, sentences: Sentences
    ) -> None:
        self.kernels, self.products = kernels, products
        self.attention, self.sentences = attention, sentences

    def _split(self, QKV: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        Q, K, V = QKV.split_with_sizes(self.attention.widths(), dim=1)
        return Q, K, V

    def forward(self, x: Tensor) -> Tensor:
        self.x, self.QKV = x, self.products.forward(x, self.attention.W_QKV)
        self.heads, self.weights = self.kernels.packed_forward(self.sentences, *self._split(self.QKV))
        return self.products.forward(self.heads, self.attention.W_O)

    def backward(self, df: Tensor, dx: Tensor) -> Tensor:
        """dx, to which the gradient by x is added."""
        attention = self.attention
        self.products.by_weight(df, self.heads, _gradient(attention.W_O))
        dQKV, d_heads = torch.empty_like(self.QKV), self.products.by_input(df, attention.W_O)
        self.kernels.packed_backward(
            self.sentences, d_heads, *self._split(self.QKV), self.weights, self._split(dQKV)
        )
        self.products.by_weight(dQKV, self.x, _gradient(attention.W_QKV))
        self.products.add_by_input(dx, dQKV, attention.W_QKV)
        return dx


class _CrossAttentionPass:
    """f = MultiHead(x, memory, memory) (3.2.2, 3.2.3)."""

    def __init__(
        self, kernels: Kernels, products: Products, attention: MultiHeadAttention, sentences: Sentences
    ) -> None:
        self.kernels, self.products = kernels, products
        self.attention, self.sentences = attention, sentences

    def _split(self, KV: Tensor) -> tuple[Tensor, Tensor]:
        K, V = KV.split_with_sizes(self.attention.widths()[1:], dim=1)
        return K, V

    def _matrices(self, W_QKV: Tensor) -> tuple[Tensor, Tensor]:
        """W^Q; W^K and W^V."""
        width = self.attention.widths()[0]
        return W_QKV[:width], W_QKV[width:]

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        W_Q, W_KV = self._matrices(self.attention.W_QKV)
        self.x, self.memory = x, memory
        self.Q, self.KV = self.products.forward(x, W_Q), self.products.forward(memory, W_KV)
        self.heads, self.weights = self.kernels.packed_forward(self.sentences, self.Q, *self._split(self.KV))
        return self.products.forward(self.heads, self.attention.W_O)

    def backward(self, df: Tensor, dx: Tensor, d_memory: Tensor) -> Tensor:
        """dx, to which the gradient by x is added, as that by the memory is to `d_memory`."""
        attention = self.attention
        W_Q, W_KV = self._matrices(attention.W_QKV)
        dW_Q, dW_KV = self._matrices(_gradient(attention.W_QKV))
        self.products.by_weight(df, self.heads, _gradient(attention.W_O))
        d_heads = self.products.by_input(df, attention.W_O)
        dQ, dKV = torch.empty_like(self.Q), torch.empty_like(self.KV)
        self.kernels.packed_backward(
            self.sentences, d_heads, self.Q, *self._split(self.KV), self.weights, (dQ, *self._split(dKV))
        )
        self.products.by_weight(dQ, self.x, dW_Q)
        self.products.by_weight(dKV, self.memory, dW_KV)
        self.products.add_by_input(d_memory, dKV, W_KV)
        self.products.add_by_input(dx, dQ, W_Q)
        return dx


class _EncoderPass:
    """An encoder layer (3.1)."""

    def __init__(
        self, kernels: Kernels, products: Products, layer: EncoderLayer, in_source: Sentences
    ) -> None:
        self.attention = _SelfAttentionPass(kernels, products, layer.self_attention, in_source)
        self.network = _FeedForwardPass(products, layer.feed_forward)
        self.residual_1 = _ResidualPass(kernels, layer.residual_1)
        self.residual_2 = _ResidualPass(kernels, layer.residual_2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.residual_1.forward(x, self.attention.forward(x))
        return self.residual_2.forward(x, self.network.forward(x))

    def backward(self, dy: Tensor) -> Tensor:
        dx, df = self.residual_2.backward(dy)
        dx, df = self.residual_1.backward(self.network.backward(df, dx))
        return self.attention.backward(df, dx)


class _DecoderPass:
    """A decoder layer (3.1)."""

    def __init__(
        self,
        kernels: Kernels,
        products: Products,
        layer: DecoderLayer,
        in_target: Sentences,
        across: Sentences,
    ) -> None:
        self.attention = _SelfAttentionPass(kernels, products, layer.self_attention, in_target)
        self.cross = _CrossAttentionPass(kernels, products, layer.cross_attention, across)
        self.network = _FeedForwardPass(products, layer.feed_forward)
        self.residual_1 = _ResidualPass(kernels, layer.residual_1)
        self.residual_2 = _ResidualPass(kernels, layer.residual_2)
        self.residual_3 = _ResidualPass(kernels, layer.residual_3)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        x = self.residual_1.forward(x, self.attention.forward(x))
        x = self.residual_2.forward(x, self.cross.forward(x, memory))
        return self.residual_3.forward(x, self.network.forward(x))

    def backward(self, dy: Tensor, d_memory: Tensor) -> Tensor:
        dx, df = self.residual_3.backward(dy)
        dx, df = self.residual_2.backward(self.network.backward(df, dx))
        dx, df = self.residual_1.backward(self.cross.backward(df, dx, d_memory))
        return self.attention.backward(df, dx)
