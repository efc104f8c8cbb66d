"""The kernels in C++ as functions of tensors.

Paper: none (infrastructure)

Tensors are on the CPU, in float32 or bfloat16. B batch, h heads, Q query positions, K key positions, d_k, d_v as in the
paper, V vocabulary, n rows, d their width.
"""

from __future__ import annotations

import ctypes
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from dragoman.native.build import compiled

DTYPES = {torch.float32: "float32", torch.bfloat16: "bfloat16"}

_pointer, _int32, _int64, _float = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_float
_ARGUMENTS = {
    "residual_forward": [
        *(_pointer, _pointer, _pointer, _int32, _float, _pointer, _pointer, _float, _int64, _int64),
        *(_pointer, _pointer, _pointer, _pointer),
    ],
    "residual_backward": [
        *(_pointer, _pointer, _pointer, _pointer, _pointer, _pointer, _int32, _float, _int64, _int64),
        *(_pointer, _pointer, _pointer, _pointer),
    ],
    "attention_forward": [*[_pointer] * 4, _float, *[_int64] * 6, _pointer, _pointer],
    "attention_backward": [*[_pointer] * 5, _float, *[_int64] * 6, *[_pointer] * 3],
    "packed_forward": [_pointer] * 6,
    "packed_backward": [_pointer] * 9,
    "embed_forward": [*[_pointer] * 4, _float, _pointer, _int32, _float, _int64, _int64, _pointer],
    "embed_backward": [_pointer, _pointer, _float, _pointer, _int32, _float, _int64, _int64, _pointer],
    "loss_gradient": [_pointer, _pointer, _float, _int64, _int64, _pointer],
}


_SHARED_ARGUMENTS = {
    "encode_sources": [_pointer, _pointer, _pointer, _int64],
    "decoder_step": [_pointer, _pointer, _pointer, _int64, _pointer],
    "search": [*[_pointer] * 5, _int64, _int64],
    "random_words": [ctypes.c_uint64, _int64, _pointer],
    "output_loss": [*[_pointer] * 3, *[_int64] * 3, _float, _float, *[_pointer] * 4],
    "best_continuations": [*[_pointer] * 3, *[_int64] * 4, *[_pointer] * 4],
}


class _Heads(ctypes.Structure):
    _fields_ = (("data", _pointer), ("batch", _int64), ("head", _int64), ("row", _int64))

    @classmethod
    def of(cls, x: Tensor) -> _Heads:
        assert x.stride(3) == 1 or x.shape[3] == 1
        return cls(x.data_ptr(), x.stride(0), x.stride(1), x.stride(2))


class _Mask(ctypes.Structure):
    _fields_ = (("data", _pointer), ("batch", _int64), ("query", _int64))

    @classmethod
    def of(cls, mask: Tensor | None) -> _Mask:
        if mask is None:
            return cls(None, 0, 0)
        batch = mask.stride(0) if mask.shape[0] > 1 else 0
        query = mask.stride(2) if mask.shape[2] > 1 else 0
        return cls(mask.data_ptr(), batch, query)


class _Rows(ctypes.Structure):
    _fields_ = (("data", _pointer), ("distance", _int64))


class _Packed(ctypes.Structure):
    _fields_ = (
        *((name, _pointer) for name in ("queries", "keys", "weights")),
        *((name, _int64) for name in ("B", "h", "d_k", "d_v", "causal")),
        ("scale", _float),
    )


@dataclass(frozen=True)
class Sentences:
    """Where the sentences of packed attention are.

    Attributes:
        queries, keys: first row of each sentence, and the number of rows of all (B + 1), int64.
        weights: first weight of each sentence (B), int64.
        weight_count: of all sentences.
        h, d_k, d_v: heads and their widths.
        causal: a query may attend to keys up to its own place only.
    """

    queries: Tensor
    keys: Tensor
    weights: Tensor
    weight_count: int
    h: int
    d_k: int
    d_v: int
    causal: bool

    @classmethod
    def of(cls, queries: Tensor, keys: Tensor, *, h: int, d_k: int, d_v: int, causal: bool) -> Sentences:
        """From the places of rows."""
        sizes = h * queries.diff() * keys.diff()
        ends = sizes.cumsum(0)
        return cls(queries, keys, ends - sizes, int(ends[-1]), h, d_k, d_v, causal)

    def structure(self) -> _Packed:
        """As the kernels want it."""
        return _Packed(
            *(self.queries.data_ptr(), self.keys.data_ptr(), self.weights.data_ptr()),
            *(len(self.weights), self.h, self.d_k, self.d_v, self.causal, self.d_k**-0.5),
        )


@dataclass(frozen=True)
class Dropped:
    """Which elements dropout keeps: those whose 16 random bits are at least `threshold`; they are scaled.

    Attributes:
        bits: int16, an element each.
        threshold: of the bits as signed numbers.
        scale: of what is kept.
    """

    bits: Tensor
    threshold: int
    scale: float


class Kernels:
    """The compiled library.

    Args:
        path: of the shared library.
    """

    def __init__(self, path: Path) -> None:
        self.digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        library = ctypes.CDLL(str(path))
        self._functions = {}
        for kernel, arguments in _ARGUMENTS.items():
            for dtype, name in DTYPES.items():
                function = getattr(library, f"{kernel}_{name}")
                function.argtypes, function.restype = arguments, None
                self._functions[kernel, dtype] = function
        for kernel, arguments in _SHARED_ARGUMENTS.items():
            function = getattr(library, kernel)
            function.argtypes, function.restype = arguments, None
        # Structures of pointers, which `model.packed` and `whole_search` fill.
        self.encode_sources, self.decoder_step = library.encode_sources, library.decoder_step
        self.search = library.search
        library.panel_columns.restype = _int64
        self.panel = int(library.panel_columns())  # outputs of a matrix in fp32 that lie together
        self.formats = ["fp32"]  # of products while translating
        self.formats += ["bf16"] if library.has_fast_products() else []
        self.formats += ["int8"] if library.has_byte_products() else []
        self._best_continuations, self._output_loss = library.best_continuations, library.output_loss
        self._random_words = library.random_words
        self.has_output_loss = bool(library.has_output_loss())

    def residual_forward(
        self, x: Tensor, f: Tensor, dropped: Dropped | None, gain: Tensor, bias: Tensor, epsilon: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """LayerNorm(z), z = x + Dropout(f); also z, the mean and 1 / sqrt(variance + epsilon) of its rows.

        Args:
            x, f: (*, d), contiguous.
            dropped: of f's elements; None: all are kept.
            gain, bias: (d).
            epsilon: of the norm.
        """
        d = x.shape[-1]
        rows = x.numel() // d
        y, z = torch.empty_like(x), torch.empty_like(x)
        mean, deviation = x.new_empty(rows, dtype=torch.float32), x.new_empty(rows, dtype=torch.float32)
        self._functions["residual_forward", x.dtype](
            *(
                x.data_ptr(),
                f.data_ptr(),
                *_dropout(dropped),
                gain.data_ptr(),
                bias.data_ptr(),
                epsilon,
                rows,
                d,
            ),
            *(z.data_ptr(), y.data_ptr(), mean.data_ptr(), deviation.data_ptr()),
        )
        return y, z, mean, deviation

    def residual_backward(
        self,
        upstream: Tensor,
        z: Tensor,
        mean: Tensor,
        deviation: Tensor,
        gain: Tensor,
        dropped: Dropped | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Gradients of `residual_forward` by x, f, gain and bias; the last two in float32."""
        d = z.shape[-1]
        z_gradient = torch.empty_like(z)
        f_gradient = z_gradient if dropped is None else torch.empty_like(z)
        gain_gradient, bias_gradient = (z.new_empty(d, dtype=torch.float32) for _ in range(2))
        self._functions["residual_backward", z.dtype](
            *(upstream.data_ptr(), z.data_ptr(), mean.data_ptr(), deviation.data_ptr(), gain.data_ptr()),
            *(*_dropout(dropped), z.numel() // d, d, z_gradient.data_ptr()),
            *(
                None if dropped is None else f_gradient.data_ptr(),
                gain_gradient.data_ptr(),
                bias_gradient.data_ptr(),
            ),
        )
        return z_gradient, f_gradient, gain_gradient, bias_gradient

    def attention_forward(
        self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None, scale: float
    ) -> tuple[Tensor, Tensor]:
        """softmax(scale Q K^T) V (B, h, Q, d_v), and the weights (B, h, Q, K).

        Args:
            Q, K, V: (B, h, L, d) with any strides but in d.
            mask: (B or 1, 1, Q or 1, K) of bool, contiguous; True = may attend; None: everywhere.
            scale: of the scores.
        """
        B, h, queries, d_k = Q.shape
        keys, d_v = K.shape[2], V.shape[3]
        heads = Q.new_empty(B, queries, h, d_v).transpose(1, 2)  # as the product after it wants them
        weights = Q.new_empty(B, h, queries, keys)
        self._functions["attention_forward", Q.dtype](
            *_references(Q, K, V),
            ctypes.byref(_Mask.of(mask)),
            *(scale, B, h, queries, keys, d_k, d_v),
            *_references(heads),
            weights.data_ptr(),
        )
        return heads, weights

    def attention_backward(
        self, G: Tensor, Q: Tensor, K: Tensor, V: Tensor, weights: Tensor, scale: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of `attention_forward` by Q, K and V, from that by its result; each (B, h, L, d)."""
        B, h, queries, d_k = Q.shape
        keys, d_v = K.shape[2], V.shape[3]
        gradients = [x.new_empty(B, x.shape[2], h, x.shape[3]).transpose(1, 2) for x in (Q, K, V)]
        self._functions["attention_backward", Q.dtype](
            *_references(G, Q, K, V),
            weights.data_ptr(),
            *(scale, B, h, queries, keys, d_k, d_v),
            *_references(*gradients),
        )
        return gradients[0], gradients[1], gradients[2]

    def packed_forward(self, sentences: Sentences, Q: Tensor, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        """Attention of packed sentences: heads (rows, h d_v), zero beyond the last sentence, and the weights.

        Args:
            sentences: where they are.
            Q, K, V: (rows, h d), with any distance between rows.
        """
        heads = Q.new_empty(len(Q), sentences.h * sentences.d_v)
        heads[int(sentences.queries[-1]) :] = 0
        weights = Q.new_empty(sentences.weight_count)
        self._functions["packed_forward", Q.dtype](
            ctypes.byref(sentences.structure()), *_rows(Q, K, V, heads), weights.data_ptr()
        )
        return heads, weights

    def packed_backward(
        self,
        sentences: Sentences,
        G: Tensor,
        Q: Tensor,
        K: Tensor,
        V: Tensor,
        weights: Tensor,
        out: tuple[Tensor, Tensor, Tensor],
    ) -> None:
        """Gradients of `packed_forward` by Q, K and V into `out`, zero beyond the last sentence."""
        for gradient, ends in zip(out, (sentences.queries, sentences.keys, sentences.keys), strict=True):
            gradient[int(ends[-1]) :] = 0
        self._functions["packed_backward", Q.dtype](
            ctypes.byref(sentences.structure()), *_rows(G, Q, K, V), weights.data_ptr(), *_rows(*out)
        )

    def embed_forward(
        self,
        weight: Tensor,
        ids: Tensor,
        positions: Tensor,
        table: Tensor,
        scale: float,
        dropped: Dropped | None,
    ) -> Tensor:
        """Dropout(weight[ids] * scale + table[positions]): (n, d)."""
        n, d = len(ids), weight.shape[1]
        check_below(ids, len(weight))
        check_below(positions, len(table))
        x = weight.new_empty(n, d)
        self._functions["embed_forward", weight.dtype](
            *(weight.data_ptr(), ids.data_ptr(), positions.data_ptr(), table.data_ptr(), scale),
            *(*_dropout(dropped), n, d, x.data_ptr()),
        )
        return x

    def embed_backward(
        self, upstream: Tensor, ids: Tensor, scale: float, dropped: Dropped | None, sums: Tensor
    ) -> None:
        """Adds the gradient of `embed_forward` by the weight to `sums` (V, d), float32."""
        n, d = upstream.shape
        check_below(ids, len(sums))
        self._functions["embed_backward", upstream.dtype](
            upstream.data_ptr(), ids.data_ptr(), scale, *_dropout(dropped), n, d, sums.data_ptr()
        )

    def loss_gradient(self, logits: Tensor, targets: Tensor, high: float) -> Tensor:
        """Turns logits (n, V) in place into their softmax, less `high` at the targets (n); returns log Z (n)."""
        check_below(targets, logits.shape[1])
        log_Z = logits.new_empty(len(logits), dtype=torch.float32)
        self._functions["loss_gradient", logits.dtype](
            *(logits.data_ptr(), targets.data_ptr(), high, *logits.shape, log_Z.data_ptr())
        )
        return log_Z

    def random_words(self, seed: int, count: int) -> Tensor:
        """64 bits for each of `count` places, as int64: a function of the seed (0 to 2^64 - 1) and the place."""
        words = torch.empty(count, dtype=torch.int64)
        self._random_words(seed, count, words.data_ptr())
        return words

    def output_loss(
        self, hidden: Tensor, weight: Tensor, targets: Tensor, high: float, low: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The output map and its loss, as `training.loss._OutputLoss` defines it; wants `has_output_loss`.

        Args:
            hidden: (n, d), bfloat16, at least one row.
            weight: (V, d), bfloat16.
            targets: (n).
            high, low: what the true class has more than the others, and what every class has.

        Returns:
            Gradients by hidden and, in float32, by weight; log Z and the true logit of each row (n).
        """
        (n, d), V = hidden.shape, len(weight)
        hidden, weight, targets = hidden.contiguous(), weight.contiguous(), targets.contiguous()
        hidden_gradient, weight_gradient = torch.empty_like(hidden), torch.empty(V, d)
        log_Z, true_logits = torch.empty(n), torch.empty(n)
        self._output_loss(
            *(hidden.data_ptr(), weight.data_ptr(), targets.data_ptr(), n, d, V, high, low),
            *(
                hidden_gradient.data_ptr(),
                weight_gradient.data_ptr(),
                log_Z.data_ptr(),
                true_logits.data_ptr(),
            ),
        )
        return hidden_gradient, weight_gradient, log_Z, true_logits

    def best_continuations(
        self, logits: Tensor, prefixes: Tensor, banned: Tensor, count: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The `count` best continuations of each sentence; see `search.candidates.best_continuations`.

        Args:
            logits: (B, K, V), float32.
            prefixes: (B, K), float64: log P of each prefix, -inf for a dead one.
            banned: (V) of bool.
            count: how many.

        Returns:
            Values, parents and tokens (B, count); and (B, K), where logits are no distribution.
        """
        B, K, V = logits.shape
        logits, prefixes = logits.contiguous(), prefixes.contiguous()
        values = prefixes.new_empty(B, count)
        parents, tokens = (torch.empty(B, count, dtype=torch.int64) for _ in range(2))
        broken = torch.empty(B, K, dtype=torch.bool)
        self._best_continuations(
            *(logits.data_ptr(), prefixes.data_ptr(), banned.data_ptr(), B, K, V, count),
            *(values.data_ptr(), parents.data_ptr(), tokens.data_ptr(), broken.data_ptr()),
        )
        return values, parents, tokens, broken


def check_below(ids: Tensor, count: int) -> None:
    """Numbers of rows: a kernel would read beyond the last without a word."""
    assert ids.numel() == 0 or 0 <= int(ids.min()) <= int(ids.max()) < count, (
        f"an id outside 0 to {count - 1}"
    )


def _dropout(dropped: Dropped | None) -> tuple[int | None, int, float]:
    return (None, 0, 1.0) if dropped is None else (dropped.bits.data_ptr(), dropped.threshold, dropped.scale)


def _rows(*tensors: Tensor) -> list[object]:
    assert all(x.stride(1) == 1 for x in tensors)
    return [ctypes.byref(_Rows(x.data_ptr(), x.stride(0))) for x in tensors]


def _references(*tensors: Tensor) -> list[object]:
    return [ctypes.byref(_Heads.of(x)) for x in tensors]


@cache
def kernels() -> Kernels | None:
    """The kernels, compiled when they are first asked for; None where that is not possible."""
    path = compiled()
    if path is None:
        return None
    try:
        return Kernels(path)
    except (OSError, AttributeError):
        return None


def kernels_for(x: Tensor) -> Kernels | None:
    """The kernels if they serve tensors such as x."""
    return kernels() if x.device.type == "cpu" and x.dtype in DTYPES else None
