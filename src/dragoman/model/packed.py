"""A model's weights as the kernels in C++ want them, for translating.

Paper: none (infrastructure)

A matrix lies as a kernel reads it, from front to end: in panels of as many outputs as the processor's
registers hold the sums of, each with its weights term by term; or, for fast products, rounded to bf16 in tiles of 16
outputs and 32 terms, or to whole numbers of 8 bits, with a scale for each output, in tiles of 16 outputs and 64 terms
(inputs are rounded alike, row by row, when they come). The structures here are those of `matrix.h`,
`layers.h`, `encode.h`, `decode.h` and `decoder.cpp`, field by field.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.embedding import Embedding
from dragoman.model.feed_forward import FeedForward
from dragoman.model.layers import DecoderLayer, EncoderLayer
from dragoman.model.position import SinusoidalPosition
from dragoman.model.residual import PostNorm
from dragoman.model.transformer import Transformer
from dragoman.native import Kernels, kernels_for

TILE, TILE_TERMS, BYTE_TERMS = 16, 32, 64
PANELS, TILES, BYTE_TILES = range(3)
LARGEST_BYTE = 127

_pointer, _int64, _float = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


class Matrix(ctypes.Structure):
    """A matrix, in one of the layouts."""

    _fields_ = (
        ("data", _pointer),
        *((name, _int64) for name in ("terms", "columns", "layout")),
        *((name, _pointer) for name in ("scales", "sums")),
    )


class Norm(ctypes.Structure):
    """Gain and bias of a layer normalization."""

    _fields_ = (("gain", _pointer), ("bias", _pointer))


class Network(ctypes.Structure):
    """A feed-forward network."""

    _fields_ = (("W_1", Matrix), ("W_2", Matrix), ("b_1", _pointer), ("b_2", _pointer))


class Encoding(ctypes.Structure):
    """An encoder layer."""

    _fields_ = (("self_QKV", Matrix), ("self_O", Matrix), ("feed_forward", Network), ("norms", Norm * 2))


class Decoding(ctypes.Structure):
    """A decoder layer."""

    _fields_ = (
        *((name, Matrix) for name in ("self_QKV", "self_O", "cross_Q", "cross_KV", "cross_O")),
        ("feed_forward", Network),
        ("norms", Norm * 3),
    )


class Sizes(ctypes.Structure):
    """Sizes of a stack."""

    _fields_ = (
        *((name, _int64) for name in ("layers", "d_model", "h", "d_k", "d_v", "d_ff")),
        ("epsilon", _float),
    )


class Embedded(ctypes.Structure):
    """An embedding."""

    _fields_ = (("weight", _pointer), ("scale", _float))


class Model(ctypes.Structure):
    """All of a model."""

    _fields_ = (
        ("sizes", Sizes),
        *((name, _pointer) for name in ("encoder", "decoder")),
        *((name, Embedded) for name in ("source_embedding", "target_embedding")),
        ("positions", _pointer),
        ("output", Matrix),
    )


class Source(ctypes.Structure):
    """A source sentence, and where what the decoder keeps of it goes."""

    _fields_ = (("ids", _pointer), ("length", _int64), ("S", _int64), ("memory", _pointer))


class Cache(ctypes.Structure):
    """Keys and values of prefixes."""

    _fields_ = (("K", _pointer), ("V", _pointer), ("room", _int64), ("slots", _int64))


class Step(ctypes.Structure):
    """One step of decoding."""

    _fields_ = (
        ("tokens", _pointer),
        *((name, _int64) for name in ("rows", "hypotheses")),
        *((name, _pointer) for name in ("sentences", "sources", "ancestors")),
        ("length", _int64),
    )


@dataclass(frozen=True, eq=False)
class PackedModel:
    """Made once for a model whose weights stay as they are.

    Attributes:
        model: the model.
        kernels: what computes.
        structure: the model for the kernels, but for its positions; see `with_positions`.
        tensors: all that is pointed to.
    """

    model: Transformer
    kernels: Kernels
    structure: Model
    tensors: list[object] = field(repr=False)

    @classmethod
    def of(cls, model: Transformer, products: str = "fp32") -> PackedModel | None:
        """None where the kernels do not serve: no compiler, another device, number format or part.

        Args:
            model: in float32.
            products: what matrices and what they are multiplied with are rounded to: "fp32", "bf16" (summed in float32)
                or "int8" (each row and each output with a scale); None also where the processor has no such products.
        """
        kernels = kernels_for(model.target_embedding.weight)
        if kernels is None or model.dtype != torch.float32 or not has_the_papers_parts(model):
            return None
        if products not in kernels.formats:
            return None
        pack = _Packing(kernels, products)
        config, N = model.config, model.config.N
        with torch.no_grad():
            sizes = Sizes(
                *(N, config.d_model, config.h, config.d_k, config.d_v, config.d_ff),
                epsilon=model.decoder_layers[0].residual_1.norm.eps,
            )
            encoder = (Encoding * N)(*map(pack.encoder_layer, model.encoder))
            decoder = (Decoding * N)(*map(pack.decoder_layer, model.decoder_layers))
            structure = Model(
                *(sizes, ctypes.addressof(encoder), ctypes.addressof(decoder)),
                *(pack.embedding(model.source_embedding), pack.embedding(model.target_embedding)),
                *(None, pack.matrix(model.output_weight)),
            )
        return cls(model, kernels, structure, [*pack.tensors, encoder, decoder])

    def with_positions(self, count: int) -> tuple[Model, Tensor]:
        """The model for the kernels, with so many positions at least; good as long as the tensor lives."""
        positions = self.model.position.rows(count)
        structure = Model.from_buffer_copy(self.structure)
        structure.positions = positions.data_ptr()
        return structure, positions

    def memory_size(self, S: int) -> int:
        """Numbers the decoder keeps of a sentence that has room for S positions."""
        config = self.model.config
        return int(config.N * config.h * (config.d_k + config.d_v) * S)


class _Packing:
    """Packs weights and keeps what they are packed into."""

    def __init__(self, kernels: Kernels, products: str) -> None:
        self.panel, self.products = kernels.panel, products
        self.tensors: list[Tensor] = []

    def keep(self, tensor: Tensor) -> int:
        self.tensors.append(tensor.detach().contiguous())
        return self.tensors[-1].data_ptr()

    def matrix(self, weight: Tensor) -> Matrix:
        """Of a weight (d_out, d_in), as `linear` has it; zeros beyond the last output and term."""
        d_out, d_in = weight.shape
        if self.products == "bf16":
            columns = F.pad(weight.t(), (0, -d_out % TILE, 0, -d_in % TILE_TERMS)).bfloat16()
            pairs = columns.view(-1, TILE_TERMS // 2, 2, columns.shape[1] // TILE, TILE)
            return Matrix(self.keep(pairs.permute(3, 0, 1, 4, 2)), d_in, d_out, TILES)
        if self.products == "int8":
            rounded, scales = to_bytes(weight)
            columns = F.pad(rounded.t(), (0, -d_out % TILE, 0, -d_in % BYTE_TERMS))
            fours = columns.view(-1, BYTE_TERMS // 4, 4, columns.shape[1] // TILE, TILE)
            sums = rounded.sum(dim=1, dtype=torch.int32)
            data, kept = self.keep(fours.permute(3, 0, 1, 4, 2)), (self.keep(scales), self.keep(sums))
            return Matrix(data, d_in, d_out, BYTE_TILES, *kept)
        columns = F.pad(weight.t(), (0, -d_out % self.panel))
        return Matrix(self.keep(columns.view(d_in, -1, self.panel).transpose(0, 1)), d_in, d_out, PANELS)

    def network(self, network: FeedForward) -> Network:
        return Network(
            self.matrix(network.W_1), self.matrix(network.W_2), self.keep(network.b_1), self.keep(network.b_2)
        )

    def embedding(self, embedding: Embedding) -> Embedded:
        return Embedded(self.keep(embedding.weight), embedding.scale)

    def norm(self, residual: PostNorm) -> Norm:
        assert isinstance(residual.norm, nn.LayerNorm)
        return Norm(self.keep(residual.norm.weight), self.keep(residual.norm.bias))

    def encoder_layer(self, layer: nn.Module) -> Encoding:
        assert isinstance(layer, EncoderLayer)
        attention = layer.self_attention
        return Encoding(
            self.matrix(attention.W_QKV),
            self.matrix(attention.W_O),
            self.network(layer.feed_forward),
            (Norm * 2)(*map(self.norm, (layer.residual_1, layer.residual_2))),
        )

    def decoder_layer(self, layer: DecoderLayer) -> Decoding:
        own, cross = layer.self_attention, layer.cross_attention
        return Decoding(
            self.matrix(own.W_QKV),
            self.matrix(own.W_O),
            self.matrix(cross.W_QKV[: cross.h * cross.d_k]),
            self.matrix(cross.W_QKV[cross.h * cross.d_k :]),
            self.matrix(cross.W_O),
            self.network(layer.feed_forward),
            (Norm * 3)(*map(self.norm, (layer.residual_1, layer.residual_2, layer.residual_3))),
        )


def to_bytes(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers from -127 to 127 (d_out, d_in) and the scale of each row, whose product is nearest the weight."""
    scales = weight.abs().amax(dim=1) / LARGEST_BYTE
    safe = torch.where(scales > 0, scales, 1.0)
    return (weight / safe[:, None]).round().to(torch.int8), scales


def has_the_papers_parts(model: Transformer) -> bool:
    """Whether every module is the paper's own: what the kernels compute is nothing else."""
    parts = {
        "self_attention": MultiHeadAttention,
        "cross_attention": MultiHeadAttention,
        "feed_forward": FeedForward,
        "residual_1": PostNorm,
        "residual_2": PostNorm,
        "residual_3": PostNorm,
    }
    embeddings = (model.source_embedding, model.target_embedding, model.output_embedding)
    layers = [*model.encoder, *model.decoder]
    found = [(child, parts.get(name)) for layer in layers for name, child in layer.named_children()]
    norms = [child.norm for child, kind in found if kind is PostNorm and type(child) is PostNorm]
    return (
        all(type(embedding) is Embedding for embedding in embeddings)
        and type(model.position) is SinusoidalPosition
        and all(
            type(end) is nn.Identity for end in (model.encoder_start, model.encoder_end, model.decoder_end)
        )
        and all(type(child) is kind for child, kind in found)
        and all(type(norm) is nn.LayerNorm for norm in norms)
    )
