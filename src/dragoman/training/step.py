"""One update: forward, loss, backward and Adam, in pieces where memory is short.

Paper: 5.1, 5.3, 5.4
Silent: the order of random numbers (dropout of update s is drawn from a generator seeded with (seed, s), so
that an update is a function of weights, batch, seed and number, and nothing else has to be saved to go on).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Int64
from torch import Tensor, nn

from dragoman.data.batches import Batch
from dragoman.errors import NonFiniteLoss
from dragoman.machine import DTYPES
from dragoman.model.transformer import Transformer
from dragoman.recipe import Recipe
from dragoman.text.subwords import Subwords
from dragoman.training import explicit
from dragoman.training.learner import Learner
from dragoman.training.loss import Spread, output_loss, over_the_others
from dragoman.training.loss_scale import LossScale
from dragoman.training.optimizer import FlatAdam
from dragoman.training.products import AS_TORCH, Products
from dragoman.training.schedule import Cooldown, Decay, learning_rate


@dataclass(frozen=True)
class Update:
    """What an update measured; losses a target token, in nats.

    Attributes:
        gradient_norm: not finite where the gradient overflowed in fp16 and no weight was changed.
    """

    loss: float
    nll: float
    rate: float
    gradient_norm: float

    @property
    def overflowed(self) -> bool:
        """Whether it was left out."""
        return not math.isfinite(self.gradient_norm)


def optimizer_for(model: nn.Module, recipe: Recipe) -> FlatAdam:
    """Adam of the model with the constants and the number format of the recipe."""
    rule = recipe.optimizer
    return FlatAdam(
        model,
        DTYPES[recipe.training.precision],
        beta_1=rule.beta_1,
        beta_2=rule.beta_2,
        epsilon=rule.epsilon,
    )


def pieces(batch: Batch, tokens_at_once: int) -> Iterator[Batch]:
    """Cuts a batch into as few runs of equal numbers of rows as have about so many tokens a side at most (or one row).

    Padding is not counted, as it is not in the budget of a batch: a batch as large as a piece may be is one piece. An
    eighth more is let pass: two budgets in one batch are two pieces, though their rows do not divide them evenly.
    """
    if max(batch.source_tokens, batch.target_tokens) <= tokens_at_once:
        yield batch
        return
    tokens_at_once += tokens_at_once // 8
    sides = (batch.source_ids, batch.target_output_ids)
    tokens = torch.stack([(ids != Subwords.PAD_ID).sum(dim=1) for ids in sides], dim=1)
    for start, stop in _runs(tokens, tokens_at_once):
        yield _rows(batch, slice(start, stop))


def _runs(tokens: Int64[Tensor, "rows 2"], most: int) -> list[tuple[int, int]]:
    """The fewest runs of equal numbers of rows, none with more than `most` tokens a side unless it is a single row."""
    rows = len(tokens)
    before = F.pad(tokens.cumsum(dim=0), (0, 0, 1, 0))
    for count in range(-(-int(tokens.sum(dim=0).max()) // most), rows):
        edges = torch.linspace(0, rows, count + 1, dtype=torch.float64).round().long()
        if int((before[edges[1:]] - before[edges[:-1]]).max()) <= most:
            return list(pairwise(edges.tolist()))
    return [(row, row + 1) for row in range(rows)]


def _rows(batch: Batch, rows: slice) -> Batch:
    """Some rows of a batch, without the columns that are padding in all of them."""
    source, target, output = (
        ids[rows] for ids in (batch.source_ids, batch.target_input_ids, batch.target_output_ids)
    )
    source_lengths = (source != Subwords.PAD_ID).sum(dim=1)
    target_lengths = (target != Subwords.PAD_ID).sum(
        dim=1
    )  # the output may have gaps where nothing is learned
    S, T = int(source_lengths.max()), int(target_lengths.max())
    return Batch(
        source_ids=source[:, :S],
        target_input_ids=target[:, :T],
        target_output_ids=output[:, :T],
        pair_indices=batch.pair_indices[rows],
        source_tokens=int(source_lengths.sum()),
        target_tokens=int((output != Subwords.PAD_ID).sum()),
    )


def gradient(
    model: Learner,
    optimizer: FlatAdam,
    batch: Batch,
    *,
    eps_ls: float,
    tokens_at_once: int,
    spread: Spread = over_the_others,
    products: Products = AS_TORCH,
    factor: float = 1.0,
) -> tuple[float, float]:
    """Leaves the gradient of the summed loss in the optimizer, times `factor`; returns the sums of loss and nll.

    The gradient that is written out (`explicit`) is of number formats that need no factor.
    """
    if factor == 1.0 and isinstance(model, Transformer) and (kernels := explicit.serves(model)) is not None:
        loss_and_gradient = partial(explicit.loss_and_gradient, model, kernels, products=products)
    else:
        loss_and_gradient = partial(_by_autograd, model, optimizer, factor)
    loss_sum = nll_sum = 0.0
    cut = list(pieces(batch, tokens_at_once))
    for number, piece in enumerate(cut, start=1):
        smoothed, nll = loss_and_gradient(piece, eps_ls, spread)
        optimizer.gather(first=number == 1, last=number == len(cut))
        loss_sum += smoothed.item()
        nll_sum += nll.item()
    return loss_sum, nll_sum


def _by_autograd(
    model: Learner, optimizer: FlatAdam, factor: float, piece: Batch, eps_ls: float, spread: Spread
) -> tuple[Tensor, Tensor]:
    optimizer.zero_gradient()
    hidden = model.hidden(piece.source_ids, piece.target_input_ids)
    pad_id = model.config.pad_id
    loss = output_loss(
        hidden, model.output_weight, piece.target_output_ids, eps_ls, pad_id=pad_id, spread=spread
    )
    (factor * loss.smoothed).backward()  # type: ignore[no-untyped-call]
    return loss.smoothed.detach(), loss.nll


def update(
    model: Learner,
    optimizer: FlatAdam,
    batch: Batch,
    recipe: Recipe,
    step: int,
    cooldown: Cooldown | None = None,
    products: Products = AS_TORCH,
    scale: LossScale | None = None,
) -> Update:
    """Update number `step` (from 1) of the model in place.

    Args:
        model, optimizer, batch, recipe, step: of which, with what, by which rules.
        cooldown: where the rate falls at the run's end.
        products: multiplies the matrices of a gradient that is written out (`explicit`).
        scale: in fp16; a gradient that overflows then changes no weight, and is no error while the scale can shrink.

    Raises:
        NonFiniteLoss: the loss or the gradient is infinite or not a number; no weight was changed.
    """
    training, rules = recipe.training, recipe.training_rules
    factor = 1.0 if scale is None else scale.factor
    torch.manual_seed(_seed(training.seed, step))
    model.train()
    loss_sum, nll_sum = gradient(
        model,
        optimizer,
        batch,
        eps_ls=training.eps_ls,
        tokens_at_once=recipe.batch.tokens_at_once,
        spread=rules.spread or over_the_others,
        products=products,
        factor=factor,
    )
    norm = optimizer.scale_gradient(1.0 / (batch.target_tokens * factor))
    overflowed = not math.isfinite(norm) and scale is not None and scale.can_shrink
    if not math.isfinite(loss_sum) or not (math.isfinite(norm) or overflowed):
        raise _not_finite(batch, step, loss_sum, norm)
    if rules.longest_gradient is not None and norm > rules.longest_gradient:
        optimizer.scale_gradient(rules.longest_gradient / norm)
    rate = learning_rate(
        step,
        d_model=model.config.d_model,
        warmup_steps=recipe.optimizer.warmup_steps,
        factor=recipe.optimizer.factor,
        cooldown=cooldown,
        decay=None if rules.decay is None else Decay(rules.decay, training.max_steps),
    )
    if overflowed:
        optimizer.skip()
    else:
        optimizer.step(rate)
    return Update(loss_sum / batch.target_tokens, nll_sum / batch.target_tokens, rate, norm)


def _seed(seed: int, step: int) -> int:
    """A 64-bit mix of the two, so that neighboring pairs do not share streams (splitmix64's finalizer)."""
    z = (seed * 0x9E3779B97F4A7C15 + step) & 0xFFFF_FFFF_FFFF_FFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFF_FFFF_FFFF_FFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFF_FFFF_FFFF_FFFF
    return z ^ (z >> 31)


def _not_finite(batch: Batch, step: int, loss: float, norm: float) -> NonFiniteLoss:
    pairs = batch.pair_indices.tolist()
    shown = ", ".join(map(str, pairs[:10])) + (", ..." if len(pairs) > 10 else "")
    return NonFiniteLoss(
        f"update {step}: the summed loss is {loss} and the gradient's norm {norm}; no weight was changed",
        where=f"batch of {len(pairs)} pairs (numbers {shown}), {batch.source_tokens} source and "
        f"{batch.target_tokens} target tokens, longest {batch.source_ids.shape[1]} and "
        f"{batch.target_output_ids.shape[1]}",
        cure="start a new run with a lower optimizer.factor or more optimizer.warmup_steps; what was saved is good",
    )
