"""Departures of training, and what they put in place of the paper's rules.

Paper: none (departures)

Training takes what is here as plain functions and numbers and knows nothing of departures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Annotated, ClassVar, Literal, assert_never, get_args

from pydantic import Field

from dragoman.variants.cosine_decay import cosine
from dragoman.variants.departures import Choice, Level, listed, refuse
from dragoman.variants.linear_decay import linear
from dragoman.variants.moving_average import taken_up
from dragoman.variants.smoothing_over_all import over_all
from dragoman.variants.smoothing_without_padding import without_padding

Spread = Callable[[float, int], tuple[float, float, float]]
Decay = Callable[[float], float]
TakenUp = Callable[[int], float]


@dataclass(frozen=True)
class RunLimits:
    """What of a run decides whether a departure of training can be had.

    Attributes:
        warmup_steps, max_steps, max_minutes, cooldown: as the recipe's fields.
    """

    warmup_steps: int
    max_steps: int
    max_minutes: float | None
    cooldown: float


class _OfTraining(Choice):
    """What departures of training have."""

    level: ClassVar[Level] = "training"

    def fault_in(self, run: RunLimits) -> str | None:
        """Why it cannot be had in this run; None where it can."""
        return None


class _Smoothing(_OfTraining):
    """How eps_ls is spread."""

    decides: ClassVar[str] = "how eps_ls is spread"
    instead_of: ClassVar[str] = "eps_ls over the other V - 1"
    section: ClassVar[str] = "5.4"


class SmoothingOverAll(_Smoothing):
    """Each class has eps_ls / V, the true one too."""

    name: Literal["smoothing_over_all"] = "smoothing_over_all"
    source: ClassVar[str] = "Szegedy et al. 2016"


class SmoothingWithoutPadding(_Smoothing):
    """Each class but the true one and padding has eps_ls / (V - 2)."""

    name: Literal["smoothing_without_padding"] = "smoothing_without_padding"
    source: ClassVar[str] = "Rush 2018"


class MovingAverage(_OfTraining):
    """What is validated and stored is a moving average of the weights.

    Attributes:
        share: of the weights after each update in the average; more in the first updates.
    """

    name: Literal["moving_average"] = "moving_average"
    share: Annotated[float, Field(gt=0.0, lt=1.0)] = 1e-4
    decides: ClassVar[str] = "which weights are validated and stored"
    instead_of: ClassVar[str] = "the weights themselves"
    section: ClassVar[str] = "6.1"
    source: ClassVar[str] = "Junczys-Dowmunt et al. 2018"


class _Decay(_OfTraining):
    """How the rate falls after its warm-up, down to its end at the last update.

    Attributes:
        to: share of the highest rate that is left then.
    """

    to: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    decides: ClassVar[str] = "how the rate falls"
    instead_of: ClassVar[str] = "as step^-0.5"
    section: ClassVar[str] = "5.3"

    def fault_in(self, run: RunLimits) -> str | None:
        if run.cooldown:
            return f"optimizer.cooldown {run.cooldown} says already how the rate ends"
        if run.max_minutes is not None:
            return (
                f"the rate falls until the last update, and training.max_minutes {run.max_minutes:g} may end the "
                "run before it"
            )
        if run.max_steps <= run.warmup_steps:
            return f"a warm-up of {run.warmup_steps} updates leaves none of {run.max_steps} for it"
        return None


class LinearDecay(_Decay):
    """Linearly."""

    name: Literal["linear_decay"] = "linear_decay"
    source: ClassVar[str] = "Devlin et al. 2019"


class CosineDecay(_Decay):
    """Along half a wave of the cosine."""

    name: Literal["cosine_decay"] = "cosine_decay"
    source: ClassVar[str] = "Loshchilov & Hutter 2017"


class Clipping(_OfTraining):
    """A gradient that is longer than this is made as long.

    Attributes:
        norm: the longest, of all weights together.
    """

    name: Literal["clipping"] = "clipping"
    norm: Annotated[float, Field(gt=0.0)]
    decides: ClassVar[str] = "how long a gradient may be"
    instead_of: ClassVar[str] = "gradients as they are"
    section: ClassVar[str] = "5.3"
    source: ClassVar[str] = "Pascanu et al. 2013"


TrainingDeparture = (
    SmoothingOverAll | SmoothingWithoutPadding | MovingAverage | LinearDecay | CosineDecay | Clipping
)
TRAINING_KINDS: dict[str, type[TrainingDeparture]] = {
    kind.model_fields["name"].default: kind for kind in get_args(TrainingDeparture)
}


@dataclass(frozen=True)
class TrainingRules:
    """What training does otherwise than published.

    Attributes:
        spread: (eps_ls, V) -> shares of the true class, of each other class, and of padding; None: the paper's.
        decay: share of the updates after the warm-up -> share of the highest rate; None: the paper's fall.
        longest_gradient: what a longer gradient is cut to; None: nothing is.
        taken_up: number of an update -> its share in the moving average of the weights; None: there is none.
    """

    spread: Spread | None = None
    decay: Decay | None = None
    longest_gradient: float | None = None
    taken_up: TakenUp | None = None


def training_departures_of(value: object) -> tuple[TrainingDeparture, ...]:
    """Departures of training as a recipe may write them, as values; see `departures.listed`."""
    return listed(value, TRAINING_KINDS, "training")


def check_training_departures(departures: Sequence[TrainingDeparture], run: RunLimits) -> None:
    """Refuses what makes no sense together, or not in this run.

    Raises:
        ConfigError: names the departures and the reason.
    """
    refuse(departures, (departure.fault_in(run) for departure in departures))


def training_rules(departures: Sequence[TrainingDeparture]) -> TrainingRules:
    """What these departures put in place of the paper's rules."""
    return reduce(_with, departures, TrainingRules())


def _with(rules: TrainingRules, departure: TrainingDeparture) -> TrainingRules:
    match departure:
        case SmoothingOverAll():
            return replace(rules, spread=over_all)
        case SmoothingWithoutPadding():
            return replace(rules, spread=without_padding)
        case MovingAverage(share=share):
            return replace(rules, taken_up=partial(taken_up, share=share))
        case LinearDecay(to=to):
            return replace(rules, decay=partial(linear, to=to))
        case CosineDecay(to=to):
            return replace(rules, decay=partial(cosine, to=to))
        case Clipping(norm=norm):
            return replace(rules, longest_gradient=norm)
        case _:
            assert_never(departure)
