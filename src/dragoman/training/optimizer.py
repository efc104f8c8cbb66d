"""Adam over all weights at once, with float32 masters where the model itself computes in 16 bits.

Paper: 5.3
Silent: number formats (masters, moments and the update are float32 whatever the model computes in; float64
stays float64); where epsilon is added (to the square root of the corrected second moment, Kingma & Ba 2015,
algorithm 1); gradient clipping (none).

The parameters of the model become views of one flat tensor, and so do their gradients: one kernel updates
all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class _Slice:
    name: str
    start: int
    shape: torch.Size

    def of(self, flat: Tensor) -> Tensor:
        return flat[self.start : self.start + self.shape.numel()].view(self.shape)


class FlatAdam:
    """Adam of a model's parameters.

    Args:
        model: its parameters are moved into one flat tensor; their values stay.
        dtype: what the model computes in from now on.
        beta_1, beta_2, epsilon: Adam's constants.
    """

    def __init__(
        self, model: nn.Module, dtype: torch.dtype, *, beta_1: float, beta_2: float, epsilon: float
    ) -> None:
        self._slices, parameters = _layout(model)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        values = torch.cat([p.detach().reshape(-1).to(wide) for p in parameters])
        self._master = values
        self._weights = values if dtype == wide else values.to(dtype)
        self._gradient = torch.zeros_like(self._weights)
        self._sum: Tensor | None = None  # of the gradients of a batch's pieces
        self._total = self._gradient
        for part, parameter in zip(self._slices, parameters, strict=True):
            parameter.data = part.of(self._weights)
            parameter.grad = part.of(self._gradient)
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.data = buffer.data.to(dtype)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self._step = torch.zeros((), dtype=torch.float32, device=values.device)  # where the kernel wants it
        self._first, self._second = torch.zeros_like(values), torch.zeros_like(values)

    def zero_gradient(self) -> None:
        """Before each backward pass that adds to what is there."""
        self._gradient.zero_()

    def gather(self, *, first: bool, last: bool) -> None:
        """After the gradient of each piece of a batch: adds it to those before, in float32 at least.

        Args:
            first, last: of the batch's pieces.
        """
        if first and last and self._weights is self._master:
            self._total = self._gradient
            return
        if self._sum is None:
            self._sum = torch.empty_like(self._master)
        if first:
            self._sum.copy_(self._gradient)
        else:
            self._sum += self._gradient
        self._total = self._sum

    def gathered(self) -> Tensor:
        """The gradient of the whole batch, of all parameters in their order (as a flat view)."""
        return self._total

    def scale_gradient(self, scale: float) -> float:
        """Multiplies the gathered gradient and returns its Euclidean norm after that."""
        self._total *= scale
        return float(self._total.norm())

    def step(self, rate: float) -> None:
        """One update of all weights with the gathered gradient.

        By the kernel of `torch.optim.Adam(fused=True)`; making that class costs a process seconds of imports.
        """
        self._step += 1
        torch._fused_adam_(
            [self._master],
            [self._total],
            [self._first],
            [self._second],
            [],
            [self._step],
            lr=rate,
            beta1=self.beta_1,
            beta2=self.beta_2,
            eps=self.epsilon,
            weight_decay=0.0,
            amsgrad=False,
            maximize=False,
        )
        if self._weights is not self._master:
            self._weights.copy_(self._master)

    def skip(self) -> None:
        """Counts an update that was left out, so that Adam's corrections follow the number of the update."""
        self._step += 1

    def weights(self) -> dict[str, Tensor]:
        """The master weights by name, as views."""
        return {part.name: part.of(self._master) for part in self._slices}

    @torch.no_grad()
    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Sets the weights alone; names and shapes are the caller's to check."""
        for name, view in self.weights().items():
            view.copy_(weights[name])
        if self._weights is not self._master:
            self._weights.copy_(self._master)

    def moments(self) -> dict[str, Tensor]:
        """Adam's moments as `first.NAME` and `second.NAME`, as views."""
        first = {f"first.{p.name}": p.of(self._first) for p in self._slices}
        return first | {f"second.{p.name}": p.of(self._second) for p in self._slices}

    @torch.no_grad()
    def load(self, weights: dict[str, Tensor], moments: dict[str, Tensor], steps: int) -> None:
        """Sets weights, moments and the number of updates; names and shapes are the caller's to check."""
        self.set_weights(weights)
        for name, view in self.moments().items():
            view.copy_(moments[name])
        self._step.fill_(steps)


def _layout(model: nn.Module) -> tuple[list[_Slice], list[nn.Parameter]]:
    """Every parameter once, by its first name, in the order of `named_parameters`."""
    slices, parameters, start = [], [], 0
    for name, parameter in model.named_parameters():
        slices.append(_Slice(name, start, parameter.shape))
        parameters.append(parameter)
        start += parameter.numel()
    return slices, parameters
