"""The matrix products of an update, each by the faster of two libraries where both are exact.

Paper: none (infrastructure)

In float32 torch multiplies by the library it was built with, which leaves half of some processors unused; oneDNN, which
it uses for bf16, multiplies float32 too. Neither is faster everywhere and for all shapes, and oneDNN may be told to round
what it multiplies: so each kind of product is timed at the start of a run, and oneDNN's error is looked at beside the
other's. Two libraries give other last bits: what was chosen belongs to the run's place in training and is kept when it
goes on.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from dragoman.model.transformer import Transformer
from dragoman.remembered import remembered

FORWARD, BY_INPUT, BY_WEIGHT = KINDS = ("forward", "by input", "by weight")
WORTH = 1.04  # oneDNN must be faster by this, by the quickest of each as by the median round
ROUNDS = 7
MOST_ROWS = 2_048  # measured with
AS_EXACT = 4.0  # times the other's error, for sums are made in another order; in bf16 it would be thousands
# Operations of a run from which on the measurement is worth its seconds: four minutes of a slow machine.
PAYS_FROM_OPERATIONS = 2.4e13
SLOW_MACHINE = 1e11  # operations a second


class Products:
    """y = x W^T + b and its gradients, W (d_out, d_in) as `nn.Linear` has it.

    Args:
        by_onednn: what oneDNN multiplies, as `named` names it; all else as torch does by itself.

    Attributes:
        by_onednn: the same.
    """

    def __init__(self, by_onednn: Collection[str] = ()) -> None:
        self.by_onednn = frozenset(by_onednn)

    def forward(
        self, x: Float[Tensor, "n d_in"], W: Float[Tensor, "d_out d_in"], b: Tensor | None = None
    ) -> Float[Tensor, "n d_out"]:
        """x W^T + b."""
        return _onednn(x, W, b) if self._asks(FORWARD, W) else F.linear(x, W, b)

    def by_input(
        self, dy: Float[Tensor, "n d_out"], W: Float[Tensor, "d_out d_in"]
    ) -> Float[Tensor, "n d_in"]:
        """The gradient by x: dy W."""
        return _onednn(dy, W.t()) if self._asks(BY_INPUT, W) else dy @ W

    def add_by_input(
        self, dx: Float[Tensor, "n d_in"], dy: Float[Tensor, "n d_out"], W: Float[Tensor, "d_out d_in"]
    ) -> None:
        """Adds the gradient by x to `dx`."""
        if self._asks(BY_INPUT, W):
            dx.add_(_onednn(dy, W.t()))
        else:
            dx.addmm_(dy, W)

    def by_weight(
        self, dy: Float[Tensor, "n d_out"], x: Float[Tensor, "n d_in"], out: Float[Tensor, "d_out d_in"]
    ) -> None:
        """Writes the gradient by W: dy^T x."""
        if self._asks(BY_WEIGHT, out):
            out.copy_(_onednn(dy.t(), x.t()))
        else:
            torch.mm(dy.t(), x, out=out)

    def _asks(self, kind: str, W: Tensor) -> bool:
        return bool(self.by_onednn) and W.dtype == torch.float32 and named(kind, *W.shape) in self.by_onednn


AS_TORCH = Products()


def named(kind: str, d_out: int, d_in: int) -> str:
    """Of a kind of product, and a matrix W."""
    return f"{kind} {d_out}x{d_in}"


def shapes_of(model: Transformer) -> list[tuple[int, int]]:
    """(d_out, d_in) of the matrices that a gradient which is written out multiplies by."""
    shapes = {(model.output_weight.shape[0], model.output_weight.shape[1])}
    for layer in (*model.encoder, *model.decoder_layers):
        for name, weight in layer.named_parameters():
            if weight.dim() != 2:
                continue
            d_out, d_in = weight.shape
            parts = [d_out]
            if name == "cross_attention.W_QKV":  # queries are of other rows than keys and values
                of_queries = layer.cross_attention.widths()[0]
                parts = [of_queries, d_out - of_queries]
            shapes |= {(part, d_in) for part in parts}
    return sorted(shapes)


def pays(model: Transformer, tokens: int, updates: int, minutes: float | None) -> bool:
    """Whether a run is long enough for the choice to be measured; a matter of its rules, not of the machine's hour.

    Args:
        model: what is trained.
        tokens: of a batch, a side.
        updates, minutes: what the run is limited by.
    """
    operations = 6.0 * sum(parameter.numel() for parameter in model.parameters()) * tokens * updates
    if minutes is not None:
        operations = min(operations, 60.0 * minutes * SLOW_MACHINE)
    return operations >= PAYS_FROM_OPERATIONS


def faster_by_onednn(shapes: Iterable[tuple[int, int]], rows: int, facts: tuple[object, ...]) -> list[str]:
    """Names of the products that oneDNN makes clearly faster here, and as exactly; remembered in the user's cache.

    Args:
        shapes: of the matrices.
        rows: of what is multiplied by them, as they are in a batch.
        facts: of the machine, on which the answer depends: it is measured once for each.
    """
    rows, shapes = min(rows, MOST_ROWS), sorted(shapes)
    names = {named(kind, *shape) for shape in shapes for kind in KINDS}
    found = remembered(
        "products",
        (*facts, WORTH, torch.get_num_threads(), rows, shapes),
        valid=lambda text: set(filter(None, text.split("\n"))) <= names,
        measure=lambda: "\n".join(_measured(shapes, rows)),
    )
    return list(filter(None, found.split("\n")))


def _measured(shapes: Iterable[tuple[int, int]], rows: int) -> list[str]:
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not (available and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return []
    draw = torch.Generator().manual_seed(1)
    found = []
    for d_out, d_in in shapes:
        x, W, dy, b = (
            torch.randn(size, generator=draw)
            for size in ((rows, d_in), (d_out, d_in), (rows, d_out), (d_out,))
        )
        for kind in KINDS:
            ours, other = (
                _product(products, kind, x, W, dy, b)
                for products in (Products([named(kind, d_out, d_in)]), AS_TORCH)
            )
            try:
                chosen = _is_faster(ours, other) and _is_as_exact(ours(), other(), kind, x, W, dy, b)
            except RuntimeError:  # oneDNN has none for this processor
                chosen = False
            if chosen:
                found.append(named(kind, d_out, d_in))
    return found


def _product(
    products: Products, kind: str, x: Tensor, W: Tensor, dy: Tensor, b: Tensor
) -> Callable[[], Tensor]:
    out = torch.empty_like(W)

    def by_weight() -> Tensor:
        products.by_weight(dy, x, out)
        return out

    return {
        FORWARD: lambda: products.forward(x, W, b),
        BY_INPUT: lambda: products.by_input(dy, W),
        BY_WEIGHT: by_weight,
    }[kind]


def _is_faster(ours: Callable[[], Tensor], other: Callable[[], Tensor]) -> bool:
    """In turn: a busy neighbor slows a single measurement of either, which neither the quickest nor a median minds."""
    ours(), other()
    own, others = zip(*((_seconds(ours), _seconds(other)) for _ in range(ROUNDS)), strict=True)
    of_quickest = min(others) / min(own)
    of_median = statistics.median(b / a for a, b in zip(own, others, strict=True))
    return bool(min(of_quickest, of_median) > WORTH)


def _seconds(product: Callable[[], Tensor]) -> float:
    began = time.perf_counter()
    product()
    return time.perf_counter() - began


def _is_as_exact(ours: Tensor, other: Tensor, kind: str, *operands: Tensor) -> bool:
    exact = _product(AS_TORCH, kind, *(operand.double() for operand in operands))()
    error, of_other = ((found - exact).abs().max().item() for found in (ours, other))
    return bool(error <= AS_EXACT * of_other)


def _onednn(x: Float[Tensor, "n k"], W: Float[Tensor, "m k"], b: Tensor | None = None) -> Any:
    """x W^T + b."""
    return torch.ops.mkldnn._linear_pointwise(x, W, b, "none", [], "")
