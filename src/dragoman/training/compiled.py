"""Layers compiled by `torch.compile`, where the device is a GPU and an update is faster so.

Paper: none (infrastructure)

One compilation serves all layers of a kind and all lengths of sentences, and takes about a minute: whether it pays is
measured with the first batch of a run that is long enough, before any weight has changed. The last bits of a compiled
layer are others, and so is what dropout draws: the choice belongs to the run's place in training and is kept when it
goes on. On a CPU the kernels of `dragoman.native` do what compiling would.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from dragoman.model.layers import DecoderLayer, EncoderLayer

PAYS_FROM_SECONDS = 600.0  # of a run as it is written
WARM_UP, REPEATS = 2, 3  # gradients that are not timed, and that are


@dataclass(frozen=True)
class Choice:
    """What was measured.

    Attributes:
        compiled: whether the layers are now compiled.
        said: why, for the log.
    """

    compiled: bool
    said: str


def compile_layers(model: nn.Module, *, backend: str | Callable[..., Any] = "inductor") -> None:
    """Has each encoder and decoder layer compiled when it is next used, for sentences of any length."""
    for layer in _layers(model):
        layer.compile(dynamic=True, backend=backend)


def as_written(model: nn.Module) -> None:
    """Undoes `compile_layers`."""
    for layer in _layers(model):
        layer._compiled_call_impl = None


def choose(
    model: nn.Module, gradient: Callable[[], object], *, longest_seconds: Callable[[float], float]
) -> Choice:
    """Compiles the layers where that pays; leaves them as they are written where it does not, or cannot be done.

    Args:
        model: whose layers.
        gradient: computes the gradient of a batch, changing no weight.
        longest_seconds: how long the run will take at most, of the seconds a gradient takes.
    """
    plain = _seconds(gradient)
    if longest_seconds(plain) < PAYS_FROM_SECONDS:
        return Choice(False, "layers are not compiled: the run is too short for that to pay")
    compile_layers(model)
    try:
        faster = _seconds(gradient)
    except Exception as error:  # whatever a compiler, a driver or a lack of memory may raise
        as_written(model)
        reason = (str(error).splitlines() or [""])[0]
        return Choice(False, f"layers could not be compiled ({type(error).__name__}: {reason})")
    times = f"{1e3 * faster:.3g} ms a gradient, {1e3 * plain:.3g} ms as written"
    if faster >= plain:
        as_written(model)
        return Choice(False, f"layers are not compiled, that would be slower: {times}")
    return Choice(True, f"layers are compiled: {times}")


def _layers(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, (EncoderLayer, DecoderLayer))]


def _seconds(gradient: Callable[[], object]) -> float:
    """Of the quickest of some gradients; what is computed beside the processor is waited for."""
    taken = []
    for _ in range(WARM_UP + REPEATS):
        began = time.perf_counter()
        gradient()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - began)
    return min(taken[WARM_UP:])
