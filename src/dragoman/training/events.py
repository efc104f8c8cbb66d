"""What training reports: events, and where they go (a JSON line each, TensorBoard).

Paper: none (infrastructure)
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import MissingDependency


@dataclass(frozen=True)
class Started:
    """Training begins or goes on.

    Attributes:
        step: updates done so far.
        max_steps, max_minutes: when it will stop.
        batches_an_epoch, parameters: sizes.
        standing: how the run stands to the paper.
    """

    step: int
    max_steps: int
    max_minutes: float | None
    batches_an_epoch: int
    parameters: int
    standing: str


@dataclass(frozen=True)
class Stepped:
    """One update.

    Attributes:
        step, epoch: where training is; epochs are counted from 0.
        loss: smoothed loss a target token of this batch, nats.
        nll: unsmoothed negative log-likelihood a target token of this batch, nats.
        rate: learning rate.
        gradient_norm: Euclidean norm of the gradient; None where it overflowed in fp16 and the update was left out.
        source_tokens, target_tokens: tokens of this batch, without padding.
        seconds: training time so far, of all sessions.
        tokens_per_second: source and target tokens a second, over the last updates.
        loss_scale: the factor of this update's loss, in fp16.
    """

    step: int
    epoch: int
    loss: float
    nll: float
    rate: float
    gradient_norm: float | None
    source_tokens: int
    target_tokens: int
    seconds: float
    tokens_per_second: float
    loss_scale: float | None = None


@dataclass(frozen=True)
class Validating:
    """A validation begins; on a small machine it takes a while."""

    step: int


@dataclass(frozen=True)
class Validated:
    """A validation.

    Attributes:
        loss: smoothed loss a target token of the dev set, nats.
        perplexity: exp of the unsmoothed negative log-likelihood a target subword.
        bleu: of greedy translations of the dev set's first sentences, or None.
        best: the loss is lower than ever before.
    """

    step: int
    loss: float
    perplexity: float
    bleu: float | None
    best: bool
    seconds: float


@dataclass(frozen=True)
class Saved:
    """A checkpoint is durable."""

    step: int
    name: str


@dataclass(frozen=True)
class Said:
    """Something a person should know."""

    text: str


@dataclass(frozen=True)
class Ended:
    """Training stopped, and why: steps, minutes, patience or signal."""

    step: int
    reason: str
    seconds: float


Event = Started | Stepped | Validating | Validated | Saved | Said | Ended
Emit = Callable[[Event], None]


class JsonLines:
    """Writes events as JSON, one a line: every validation, checkpoint and end, and each n-th update."""

    def __init__(self, path: Path, *, every_steps: int, anew: bool = False) -> None:
        self._stream = path.open("w" if anew else "a", encoding="utf-8", newline="\n", buffering=1)
        self._every = every_steps

    def __call__(self, event: Event) -> None:
        if isinstance(event, Stepped) and event.step % self._every:
            return
        fields = {name: _as_json(value) for name, value in asdict(event).items()}
        record = {"event": type(event).__name__.lower(), **fields}
        self._stream.write(json.dumps(record, allow_nan=False) + "\n")

    def close(self) -> None:
        """Ends the file."""
        self._stream.close()


def _as_json(value: object) -> object:
    """JSON has no NaN and no infinity: null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


class TensorBoard:
    """Writes scalars for TensorBoard (extra `tensorboard`)."""

    def __init__(self, directory: Path, *, every_steps: int) -> None:
        try:
            tensorboard: Any = importlib.import_module("torch.utils.tensorboard")
        except ImportError:
            raise MissingDependency(
                "TensorBoard is not installed", cure="pip install 'dragoman[tensorboard]'"
            ) from None
        self._writer = tensorboard.SummaryWriter(str(directory))
        self._every = every_steps

    def __call__(self, event: Event) -> None:
        match event:
            case Stepped() if event.step % self._every == 0:
                scalars = {
                    "train/loss": event.loss,
                    "train/learning_rate": event.rate,
                    "train/tokens_per_second": event.tokens_per_second,
                }
                if event.gradient_norm is not None:
                    scalars["train/gradient_norm"] = event.gradient_norm
            case Validated():
                scalars = {"dev/loss": event.loss, "dev/perplexity": event.perplexity}
                scalars |= {} if event.bleu is None else {"dev/bleu": event.bleu}
            case _:
                return
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, event.step)

    def close(self) -> None:
        """Ends the file."""
        self._writer.close()
