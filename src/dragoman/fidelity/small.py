"""Small models to measure: made of a run's own parts, and shaken, since a weight of 0 or 1 could hide something.

Paper: none (infrastructure)
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from dragoman.model.config import ModelConfig, ModelShape
from dragoman.model.parts import Parts
from dragoman.model.transformer import Transformer

M = TypeVar("M", bound=nn.Module)

V = 40  # of the models measured
D_K = 4  # a size that parts which turn pairs of columns can have
LEAST_WIDTH = 16
MOST_HEADS = 64
NOISE = 0.3


def small_model(shape: ModelShape, parts: Parts, *, P_drop: float) -> Transformer:
    """A model of the run's parts and heads, narrow and two layers deep, with its initial weights."""
    return Transformer(small_config(shape, P_drop=P_drop), parts)


def small_config(shape: ModelShape, *, P_drop: float) -> ModelConfig:
    """The sizes of one."""
    h = min(shape.h, MOST_HEADS)
    width = max(D_K * h, LEAST_WIDTH)
    sizes = {"N": 2, "d_model": width, "d_ff": width + 8, "h": h, "d_k": D_K, "d_v": D_K, "P_drop": P_drop}
    return ModelConfig.from_shape(shape.model_copy(update=sizes), vocab_size=V, source_vocab_size=V)


def shaken(model: M, *, training: bool = False) -> M:
    """A copy in float64 with noise on every weight."""
    changed = copy.deepcopy(model).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter.add_(NOISE * torch.randn(parameter.shape, generator=generator).double())
    return changed.train(training)


def exact(model: M) -> M:
    """A copy in float64, weights as they are, without dropout."""
    return copy.deepcopy(model).double().eval()


def parts_named(model: nn.Module, pattern: str) -> Iterator[Any]:
    """The modules whose place in their layer has such a name, in the order of the model."""
    for name, module in model.named_modules():
        if re.fullmatch(pattern, name.rpartition(".")[2]):
            yield module


RESIDUALS = r"residual_\d+"
ATTENTIONS = r"\w+_attention"
NETWORKS = r"feed_forward"


def numbers(*shape: int, seed: int = 1) -> Tensor:
    """Normal numbers in float64."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def ids(*rows: list[int]) -> Tensor:
    """Token ids."""
    return torch.tensor(rows)


SOURCE, TARGET = ids([5, 6, 7, 8]), ids([9, 10, 11])  # a pair to look at


def same(a: Tensor, b: Tensor, tolerance: float = 1e-9) -> bool:
    """Equal, to a share of the largest number."""
    if a.shape != b.shape:
        return False
    a, b = a.detach(), b.detach()
    largest = float(torch.maximum(a.abs(), b.abs()).max())
    return float((a - b).abs().max()) <= tolerance * max(largest, 1.0)


def agreed(answers: Iterator[str]) -> str:
    """The one answer of all places, or all that there are."""
    return " / ".join(dict.fromkeys(answers)) or "there is none"


@contextmanager
def calls(modules: Iterator[nn.Module]) -> Iterator[list[tuple[nn.Module, Any, Any]]]:
    """Notes each call of the modules: which, its first argument, its result."""
    seen: list[tuple[nn.Module, Any, Any]] = []

    def note(module: nn.Module, arguments: tuple[Any, ...], result: Any) -> None:
        seen.append((module, arguments[0], result))

    hooks = [module.register_forward_hook(note) for module in modules]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def is_random(compute: Callable[..., Tensor], *arguments: object) -> bool:
    """Whether the result depends on torch's random numbers, with a gradient wanted or not."""
    for mode in (torch.enable_grad, torch.no_grad):
        with mode():
            results = []
            for seed in (1, 2):
                torch.manual_seed(seed)
                results.append(compute(*arguments).detach())
        if not torch.equal(*results):
            return True
    return False
