"""Probes of the rules of training: one real update of a small model, and real steps of the optimizer and the rate.

Paper: none (measures what other modules do)

What an update did with a batch is read from the gradient it used. That gradient is a sum over target tokens of one vector
for the true token and one for all classes alike; how much of each is in it says how eps_ls is spread, over what the loss
is averaged, and whether the gradient was cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dragoman.data.batches import Batch
from dragoman.fidelity.small import V, exact
from dragoman.model.transformer import Transformer
from dragoman.recipe import Recipe
from dragoman.text.subwords import Subwords
from dragoman.training.averaging import mean_weights
from dragoman.training.following import average_for
from dragoman.training.optimizer import FlatAdam
from dragoman.training.step import optimizer_for, update

PAD, EOS = Subwords.PAD_ID, Subwords.EOS_ID
TOLERANCE = 3e-3  # of numbers found in float32
FAINT = 1e-5  # a share that is none
NOISE = (
    0.05  # on the weights, so that no gain is 1 and no bias 0; with more, float32 loses what is looked for
)
STEEP = (
    4.0  # the embeddings are so many times larger: a gradient of a norm of 14 to 230, beyond any limit in use
)
LEAST_GRADIENT = 1e-12  # whose square float32 still holds

# Two pairs of different lengths, which are computed in a piece each: six target tokens in the first, two in the second.
BATCH = Batch(
    source_ids=torch.tensor([[4, 5, 6, 7, 8, EOS], [9, EOS, PAD, PAD, PAD, PAD]]),
    target_input_ids=torch.tensor([[2, 10, 11, 12, 13, 14], [2, 15, PAD, PAD, PAD, PAD]]),
    target_output_ids=torch.tensor([[10, 11, 12, 13, 14, EOS], [15, EOS, PAD, PAD, PAD, PAD]]),
    pair_indices=torch.tensor([0, 1]),
    source_tokens=8,
    target_tokens=8,
)


@dataclass(frozen=True)
class UsedGradient:
    """What one update's gradient was made of.

    Attributes:
        token_weights: how much a target token of the first and of the second piece counts.
        others: of a token's weight, how much goes to each class alike.
        padding: how much more than that goes to padding.
        norm: its Euclidean norm.
        rest: share of it that is none of this.
    """

    token_weights: tuple[float, float]
    others: float
    padding: float
    norm: float
    rest: float


def used_gradient(model: Transformer, recipe: Recipe) -> UsedGradient:
    """One update of the model with the recipe, in two pieces, dropout off.

    Args:
        model: just made.
        recipe: whose rules are followed.
    """
    model = exact(model)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(NOISE * torch.randn(parameter.shape, generator=generator))
        model.target_embedding.weight.mul_(STEEP)
    model.float()
    directions = torch.stack([d for row in range(len(BATCH)) for d in _directions(exact(model), row)], dim=1)
    recipe = recipe.with_changes(["training.precision=fp32", "batch.tokens_at_once=7"])
    optimizer = optimizer_for(model, recipe)
    # Parts may have dropout of their own, which the update would switch on.
    model.train = lambda mode=True: model  # type: ignore[method-assign]
    update(model, optimizer, BATCH, recipe, recipe.optimizer.warmup_steps)
    gradient = optimizer.gathered().double()
    parts = torch.linalg.lstsq(directions, gradient[:, None]).solution[:, 0]
    rest = gradient - directions @ parts
    true, alike, padding = parts.view(2, 3).unbind(dim=1)
    weights = true + V * alike + padding
    return UsedGradient(
        token_weights=(float(weights[0]), float(weights[1])),
        others=float((alike / weights).mean()),
        padding=float((padding / weights).mean()),
        norm=float(gradient.norm()),
        rest=float(rest.norm() / gradient.norm()),
    )


def _directions(model: Transformer, row: int) -> list[Tensor]:
    """Gradients, by all parameters, of a row's -log p of the true tokens, of all classes and of padding, summed."""
    kept = BATCH.target_output_ids[row] != PAD
    logits = model(BATCH.source_ids[row : row + 1], BATCH.target_input_ids[row : row + 1])[0, kept]
    log_p = logits.log_softmax(dim=-1)
    true = log_p.gather(1, BATCH.target_output_ids[row][kept][:, None])
    return [_gradient(model, -some.sum()) for some in (true, log_p, log_p[:, PAD])]


def _gradient(model: nn.Module, loss: Tensor) -> Tensor:
    found = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True, allow_unused=True)
    pairs = zip(found, model.parameters(), strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])


def smoothing_form(used: UsedGradient, eps_ls: float) -> str:
    """Which classes share eps_ls (silent)."""
    if used.rest > TOLERANCE:
        return "another loss"
    spread = {
        "eps_ls over the other V - 1": (eps_ls / (V - 1), 0.0),
        "eps_ls over all V": (eps_ls / V, 0.0),
        "eps_ls over the other V - 2, padding left out": (eps_ls / (V - 2), -eps_ls / (V - 2)),
    }
    for said, (others, padding) in spread.items():
        if math.isclose(used.others, others, rel_tol=TOLERANCE, abs_tol=FAINT) and math.isclose(
            used.padding, padding, rel_tol=TOLERANCE, abs_tol=FAINT
        ):
            return said
    return f"{used.others * (V - 1):.3g} over the other V - 1"


def mean_of_the_loss(used: UsedGradient) -> str:
    """How much a token counts in a piece of six and in one of two, of a batch of eight (silent)."""
    first, second = used.token_weights
    if math.isclose(first, second, rel_tol=TOLERANCE):
        return "over the target tokens of a batch"
    if math.isclose(first * 6, second * 2, rel_tol=TOLERANCE):
        return "of the means of its pieces"
    return f"tokens weighted {first:.3g} and {second:.3g}"


def gradient_clipping(used: UsedGradient) -> str:
    """Whether the weights of all tokens still sum to one, the gradient being a long one (silent)."""
    first, second = used.token_weights
    total = 6 * first + 2 * second
    return "none" if total > 1.0 - 10 * TOLERANCE else f"to a norm of {used.norm:.3g}"


@dataclass(frozen=True)
class AdamMeasured:
    """Steps of the recipe's optimizer.

    Attributes:
        beta_1, beta_2, epsilon: from the moments and the size of a first step.
        form: "Adam" where further steps are those of Kingma & Ba 2015, algorithm 1, with these constants.
        decay: what a step without a gradient does to the weights.
    """

    beta_1: float
    beta_2: float
    epsilon: float
    form: str
    decay: str


def adam_measured(model: Transformer, recipe: Recipe) -> AdamMeasured:
    """A first step with a gradient as small as epsilon is to be; one without any; and three in a row."""
    steps = _Steps(model, recipe)
    small = min(max(recipe.optimizer.epsilon, LEAST_GRADIENT), 1.0)
    moved = -float(steps.after(small)[0])
    beta_1, beta_2 = 1.0 - steps.moment("first") / small, 1.0 - steps.moment("second") / small**2
    epsilon = small * (1.0 / moved - 1.0) if moved > 0.0 else math.inf
    lost = _Steps(model, recipe).after(0.0).abs().max()
    decay = "none" if float(lost) == 0.0 else "some"
    form = _form(_Steps(model, recipe), beta_1, beta_2, epsilon)
    return AdamMeasured(beta_1, beta_2, epsilon, form, decay)


def _form(steps: _Steps, beta_1: float, beta_2: float, epsilon: float) -> str:
    m = v = expected = 0.0
    for t, g in enumerate((0.5, -0.25, 1.0), start=1):
        moved = steps.after(g)
        m, v = beta_1 * m + (1.0 - beta_1) * g, beta_2 * v + (1.0 - beta_2) * g * g
        expected -= (m / (1.0 - beta_1**t)) / (math.sqrt(v / (1.0 - beta_2**t)) + epsilon)
    agrees = bool(((moved - expected).abs() < TOLERANCE * max(abs(expected), 1.0)).all())
    return "Adam" if agrees else "another than Adam"


class _Steps:
    """The recipe's optimizer of a copy of a model, and what its steps at a rate of 1 do to the weights."""

    def __init__(self, model: Transformer, recipe: Recipe) -> None:
        model = with_zeros(model)
        self.optimizer = optimizer_for(model, recipe.with_changes(["training.precision=fp32"]))
        self.parameters = list(model.parameters())
        self.start = weights_of(self.optimizer)
        self.first_zero = int((self.start == 0.0).nonzero()[0])

    def after(self, gradient: float) -> Tensor:
        """A step in which each gradient is this number; how far each weight is from where it began, a zero first."""
        for parameter in self.parameters:
            assert parameter.grad is not None
            parameter.grad.fill_(gradient)
        self.optimizer.gather(first=True, last=True)
        self.optimizer.step(1.0)
        moved = weights_of(self.optimizer) - self.start
        # Of a weight that was 0 no digit is lost to rounding.
        return torch.cat([moved[self.first_zero : self.first_zero + 1], moved])

    def moment(self, which: str) -> float:
        """The first or second moment of the first weight."""
        moments = self.optimizer.moments().items()
        return float(next(moment for name, moment in moments if name.startswith(which)).flatten()[0])


def with_zeros(model: Transformer) -> Transformer:
    """A copy in float32 in which some weights that have a gradient are 0, whatever parts it is made of."""
    model = exact(model).float()
    with torch.no_grad():
        model.output_weight[10, :8] = 0.0
    return model


def weights_of(optimizer: FlatAdam) -> Tensor:
    """All weights as they are now."""
    return torch.cat([weight.detach().flatten() for weight in optimizer.weights().values()]).double()


@dataclass(frozen=True)
class RateMeasured:
    """Rates of real updates, as the weights moved.

    Attributes:
        rule: "d_model^-0.5 min(step^-0.5, step warmup_steps^-1.5)" where they are that times a factor; how they fall
            after the warm-up, where that is otherwise.
        factor: on the rate of the recipe's warm-up.
    """

    rule: str
    factor: float


def rate_measured(model: Transformer, recipe: Recipe) -> RateMeasured:
    """The rates of updates before, at and after the end of the warm-up (Eq. 3)."""
    recipe = recipe.with_changes(["training.precision=fp32"])
    warmup, d_model = recipe.optimizer.warmup_steps, model.config.d_model
    first, highest = (_rate(model, recipe, step) for step in (max(1, warmup // 2), warmup))
    factor = highest * d_model**0.5 * warmup**0.5
    if not math.isclose(first, highest * max(1, warmup // 2) / warmup, rel_tol=TOLERANCE):
        return RateMeasured("another", factor)
    shares = {step: _rate(model, recipe, step) / highest for step in (2 * warmup, 9 * warmup)}
    if all(math.isclose(share, (warmup / step) ** 0.5, rel_tol=TOLERANCE) for step, share in shares.items()):
        return RateMeasured("d_model^-0.5 min(step^-0.5, step warmup_steps^-1.5)", factor)
    left = recipe.training.max_steps - warmup
    if left < 4:
        return RateMeasured("another", factor)
    for step in (warmup + left // 4, warmup + 3 * left // 4):
        shares[step] = _rate(model, recipe, step) / highest
    return RateMeasured(_fall(shares, warmup, recipe.training.max_steps), factor)


def _fall(shares: dict[int, float], warmup: int, max_steps: int) -> str:
    """Which curve the shares of the highest rate are on, from 1 at the end of the warm-up to some end."""
    done = {step: min((step - warmup) / (max_steps + 1 - warmup), 1.0) for step in shares}
    curves: dict[str, Callable[[float], float]] = {
        "linear after the warm-up": lambda d: d,
        "a cosine after the warm-up": lambda d: 0.5 - 0.5 * math.cos(math.pi * d),
    }
    for said, fallen in curves.items():
        last = max(shares)
        drop = (1.0 - shares[last]) / fallen(done[last])
        if drop > TOLERANCE and all(
            abs(1.0 - drop * fallen(done[s]) - share) < TOLERANCE for s, share in shares.items()
        ):
            return said if abs(drop - 1.0) < TOLERANCE else f"{said}, to {1.0 - drop:.3g}"
    return "another"


def _rate(model: Transformer, recipe: Recipe, step: int) -> float:
    """How far weights that are 0 move in a first update, which is the rate for all whose gradient is not tiny."""
    copied = with_zeros(model)
    optimizer = optimizer_for(copied, recipe)
    before = weights_of(optimizer)
    update(copied, optimizer, BATCH, recipe, step)
    moved = (weights_of(optimizer) - before).abs()[before == 0.0]
    return float(moved.median())


def averaging(model: Transformer, recipe: Recipe) -> str:
    """The average of three models of one weight (silent); and what training stores of its weights."""
    mean = float(mean_weights({"w": torch.tensor([value])} for value in (1.0, 2.0, 6.0))["w"])
    kind = "plain mean of checkpoints" if math.isclose(mean, 3.0) else "another mean of checkpoints"
    share = _taken_up(model, recipe)
    return kind if share is None else f"{kind} of a moving average, {share:.3g} of each update"


def _taken_up(model: Transformer, recipe: Recipe) -> float | None:
    """How much of a late update is in what is stored; None where it is the weights themselves."""
    optimizer = optimizer_for(with_zeros(model), recipe.with_changes(["training.precision=fp32"]))
    average = average_for(optimizer, recipe)
    if average is None:
        return None
    ones = {name: torch.ones_like(weight) for name, weight in optimizer.weights().items()}
    average.load({name: torch.zeros_like(weight) for name, weight in ones.items()})
    optimizer.set_weights(ones)
    average.follow(10**9)
    return float(next(iter(average.weights().values())).flatten()[0])
