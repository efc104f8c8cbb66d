"""The label-smoothed loss, and the same joined with the output map so that the logits never exist at once.

Paper: 5.4 (label smoothing), 3.4 (output map)
Silent: how the mass eps_ls is spread (tensor2tensor: the true class has 1 - eps_ls, each other class
eps_ls / (V - 1); classes masked with -inf get none and do not count in V); how tokens are averaged (the sum
over target tokens divided by their number, whatever sentence or piece of a batch they are in). The constant
entropy of the smoothed target that tensor2tensor subtracts is not subtracted: it changes no gradient.

n target tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.native import Kernels, kernels_for
from dragoman.training.products import AS_TORCH, Products

# Bytes of the logits that exist at once, and of the probabilities in float32 made of them at once on a CPU: these
# should stay in its cache.
BLOCK_BYTES = 64 << 20
CACHE_BYTES = 2 << 20
MOST_BYTES = 512 << 20  # of the gradients that threads sum apart
_SMALLEST = 1e-30  # of a probability whose logarithm is still exact in float32

# (eps_ls, V) -> shares of the true class, of each other class, and of padding where it is not the true one.
Spread = Callable[[float, int], tuple[float, float, float]]


def over_the_others(eps_ls: float, V: int) -> tuple[float, float, float]:
    """1 - eps_ls for the true class, eps_ls / (V - 1) for each other, padding among them."""
    each = eps_ls / max(V - 1, 1)
    return 1.0 - eps_ls, each, each


@dataclass(frozen=True)
class LossSum:
    """Sums over target tokens, in nats.

    Attributes:
        smoothed: the loss that is trained on.
        nll: -log P of the true tokens, unsmoothed: what perplexity is made of.
        tokens: how many tokens the sums are over.
    """

    smoothed: Tensor
    nll: Tensor
    tokens: int


def label_smoothed_loss(
    logits: Float[Tensor, "n V"],
    targets: Int64[Tensor, " n"],
    eps_ls: float,
    *,
    pad_id: int,
    spread: Spread = over_the_others,
) -> LossSum:
    """-sum_j q_j log p_j for each token, summed; q has 1 - eps_ls at the target and the rest spread evenly.

    Written out, in float32 or better whatever the logits are. Targets equal to pad_id contribute nothing.
    Columns at -inf have probability 0, get no smoothing mass and no gradient.

    Args:
        logits, targets: a row and the true class of each token.
        eps_ls: what is spread.
        pad_id: the class that stands for no token.
        spread: how it is spread, if not as here.
    """
    logits, targets = logits[targets != pad_id], targets[targets != pad_id]
    logits = logits if logits.dtype == torch.float64 else logits.float()
    log_p = logits.log_softmax(dim=-1)
    legal = ~torch.isneginf(logits)
    nll = -log_p.gather(-1, targets[:, None])[:, 0]
    classes = legal.sum(dim=-1).tolist()
    shares = log_p.new_tensor([spread(eps_ls, V) for V in classes]).view(-1, 3)
    true, other, padding = shares.unbind(dim=-1)
    legal_sum = torch.where(legal, log_p, 0.0).sum(dim=-1)
    smoothed = true * nll - other * (legal_sum + nll)
    if (padding != other).any():
        smoothed = smoothed + (other - padding) * torch.where(legal, log_p, 0.0)[:, pad_id]
    return LossSum(smoothed.sum(), nll.sum().detach(), int(targets.shape[0]))


class _OutputLoss(torch.autograd.Function):
    """The loss of `hidden @ weight.T`, block of rows by block of rows, gradients on the way.

    The gradient by the logits is p - q; q is `low` everywhere and `high` more at the true token. `high` is taken from p
    before it is rounded to the model's number format (of a confident p little is left, which must not be lost);
    what `low` adds to the two products is added to their results.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        eps_ls: float,
        pad_id: int,
        spread: Spread,
        with_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        found = loss_and_gradients(
            hidden, weight, targets, eps_ls, pad_id=pad_id, spread=spread, with_gradient=with_gradient
        )
        if found.by_hidden is not None and found.by_weight is not None:
            ctx.save_for_backward(found.by_hidden, found.by_weight)
            ctx.formats = hidden.dtype, weight.dtype
        ctx.mark_non_differentiable(found.nll)
        return found.smoothed, found.nll

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        grads = [
            (grad * upstream[0].to(grad.dtype)).to(dtype)
            for grad, dtype in zip(ctx.saved_tensors, ctx.formats, strict=True)
        ]
        return (*grads, None, None, None, None, None)


@dataclass(frozen=True)
class LossAndGradients:
    """Sums over rows, in nats, and their gradients.

    Attributes:
        smoothed, nll: as in `LossSum`.
        by_hidden: (n, d_model), in the model's number format, or None.
        by_weight: (V, d_model), in float32 or better, or None.
    """

    smoothed: Tensor
    nll: Tensor
    by_hidden: Tensor | None
    by_weight: Tensor | None


def loss_and_gradients(
    hidden: Float[Tensor, "n d"],
    weight: Float[Tensor, "V d"],
    targets: Int64[Tensor, " n"],
    eps_ls: float,
    *,
    pad_id: int,
    with_gradient: bool,
    spread: Spread = over_the_others,
    products: Products = AS_TORCH,
) -> LossAndGradients:
    """The loss of `hidden @ weight.T`, block of rows by block of rows, gradients on the way.

    No target is padding.
    """
    wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    V = weight.shape[0]
    true, low, padding = spread(eps_ls, V)
    high, missing = true - low, low - padding
    # The sum of all logits of a row is x times the sum of all rows of the weight.
    hidden_sum, weight_sum = hidden.sum(dim=0, dtype=wide), weight.sum(dim=0, dtype=wide)
    # low everywhere but at padding: what each class alike has, by the weight.
    low_weights = low * weight_sum - missing * weight[pad_id].to(wide) if missing else low * weight_sum
    low_sum = hidden_sum @ low_weights if missing else low * (hidden_sum @ weight_sum)
    kernels = _whole_loss_kernels(hidden, weight) if with_gradient and not missing else None
    if kernels is not None:
        by_hidden, by_weight, log_Z, true_logits = kernels.output_loss(hidden, weight, targets, high, low)
        return _summed(log_Z, true_logits, high, low_sum, by_hidden, by_weight)
    log_Z = torch.empty(hidden.shape[0], dtype=wide, device=hidden.device)
    true_logits = torch.empty_like(log_Z)
    by_hidden = torch.empty_like(hidden)
    by_weight = torch.zeros(weight.shape if with_gradient else (0,), dtype=wide, device=weight.device)
    of_rows = torch.empty_like(weight if with_gradient else weight[:0])
    for rows in _blocks(hidden.shape[0], BLOCK_BYTES // (V * hidden.element_size())):
        x = hidden[rows]
        logits = products.forward(x, weight)
        true_logits[rows] = logits.gather(-1, targets[rows, None])[:, 0]
        if not with_gradient:
            log_Z[rows] = logits.to(wide).logsumexp(dim=-1)
            continue
        log_Z[rows] = _to_gradient(logits, targets[rows], high)
        by_hidden[rows] = products.by_input(logits, weight)
        products.by_weight(logits, x, of_rows)
        by_weight += of_rows
    if not with_gradient:
        return _summed(log_Z, true_logits, high, low_sum, None, None)
    by_hidden -= low_weights.to(hidden.dtype)
    by_weight -= low * hidden_sum
    if missing:
        by_weight[pad_id] += missing * hidden_sum
    return _summed(log_Z, true_logits, high, low_sum, by_hidden, by_weight)


def _summed(
    log_Z: Tensor,
    true_logits: Tensor,
    high: float,
    low_sum: Tensor,
    by_hidden: Tensor | None,
    by_weight: Tensor | None,
) -> LossAndGradients:
    smoothed = log_Z.sum() - high * true_logits.sum() - low_sum
    return LossAndGradients(smoothed, (log_Z - true_logits).sum(), by_hidden, by_weight)


def _whole_loss_kernels(hidden: Tensor, weight: Tensor) -> Kernels | None:
    """The kernels, where they do all of the loss: in bf16, and where each thread has room for a gradient of its own."""
    kernels = kernels_for(hidden)
    room = weight.numel() * 4 * torch.get_num_threads() <= MOST_BYTES
    serves = kernels is not None and kernels.has_output_loss and hidden.dtype == torch.bfloat16
    return kernels if serves and room and len(hidden) > 0 else None


def _blocks(count: int, size: int) -> Iterator[slice]:
    """`count` rows in pieces of at most `size` (at least 1)."""
    size = max(size, 1)
    for first in range(0, count, size):
        yield slice(first, min(first + size, count))


def _to_gradient(logits: Tensor, targets: Tensor, high: float) -> Tensor:
    """Turns logits (n, V) in place into p, less `high` at the true token; returns log Z of each row (n,)."""
    kernels = kernels_for(logits)
    if kernels is not None:
        return kernels.loss_gradient(logits, targets, high)
    at_once = CACHE_BYTES // (logits.shape[1] * 4) if logits.device.type == "cpu" else len(logits)
    parts = _blocks(len(logits), max(at_once, 64))
    return torch.cat([_part_to_gradient(logits[part], targets[part], high) for part in parts])


def _part_to_gradient(logits: Tensor, targets: Tensor, high: float) -> Tensor:
    """As `_to_gradient`, of rows that fit a cache."""
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    at = targets[:, None]
    true_logits = logits.gather(-1, at).to(wide)
    p = logits.softmax(dim=-1, dtype=wide)
    p_true = p.gather(-1, at)
    log_Z = (true_logits - p_true.log())[:, 0]
    lost = p_true[:, 0] < _SMALLEST
    if lost.any():
        log_Z[lost] = logits[lost].to(wide).logsumexp(dim=-1)
    logits.copy_(p.scatter_(-1, at, p_true - high))
    return log_Z


def output_loss(
    hidden: Float[Tensor, "B T d_model"],
    weight: Float[Tensor, "V d_model"],
    targets: Int64[Tensor, "B T"],
    eps_ls: float,
    *,
    pad_id: int,
    spread: Spread = over_the_others,
) -> LossSum:
    """`label_smoothed_loss` of the output map's logits, of which only a block of rows exists at a time.

    Args:
        hidden: the decoder's output.
        weight: the output map's matrix.
        targets: true tokens; those equal to pad_id contribute nothing.
        eps_ls, pad_id, spread: as there.
    """
    real = (targets != pad_id).flatten().nonzero()[:, 0]
    flat_hidden = hidden.reshape(-1, hidden.shape[-1]).index_select(0, real)
    flat_targets = targets.flatten().index_select(0, real)
    # Inside an autograd function gradients are always off: whether they are wanted is known only here.
    with_gradient = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    smoothed, nll = _OutputLoss.apply(  # type: ignore[no-untyped-call]
        flat_hidden, weight, flat_targets, eps_ls, pad_id, spread, with_gradient
    )
    return LossSum(smoothed, nll, int(real.shape[0]))
