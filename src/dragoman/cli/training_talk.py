"""What a person sees while training: a bar with tokens a second and time left, and a line for each event.

Paper: none (infrastructure)
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, Progress, TextColumn

from dragoman.cli.talk import is_watched, minutes_and_seconds, say, stderr

if TYPE_CHECKING:
    from dragoman.training.events import Ended, Event, Saved, Started, Stepped, Validated, Validating

PLAIN_SECONDS = 15.0  # between progress lines where there is no bar
SAVED_SECONDS = 60.0  # of training, between lines of checkpoints, of which a short run makes many


class TrainingTalk:
    """Turns training's events into lines and a bar on standard error."""

    def __init__(self) -> None:
        self._limits: Started | None = None
        self._began_at = (0, 0.0)  # step and seconds of the first update seen
        self._said_at = float("-inf")
        self._seconds = 0.0  # of training, at the last update seen
        self._saved: Saved | None = None  # the last checkpoint, if it has not been told
        self._saved_at = float("-inf")
        self._progress = (
            Progress(TextColumn("{task.description}"), BarColumn(), console=stderr, transient=True)
            if is_watched()
            else None
        )
        self._task = None if self._progress is None else self._progress.add_task("training", total=1.0)

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, event: Event) -> None:
        from dragoman.training import events

        match event:
            case events.Started():
                self._limits = event
                say(event.standing)
                say(
                    f"{event.parameters:,} parameters, {event.batches_an_epoch:,} batches an epoch, "
                    f"{_limits_text(event)}"
                )
            case events.Stepped():
                self._stepped(event)
            case events.Validating():
                self._validating(event)
            case events.Validated():
                say(_validation_text(event))
            case events.Saved():
                self._saved = event
                if self._seconds - self._saved_at >= SAVED_SECONDS:
                    self._say_saved()
            case events.Said():
                say(event.text)
            case events.Ended():
                self._say_saved()
                say(_ending_text(event))

    def _say_saved(self) -> None:
        if self._saved is not None:
            say(f"step {self._saved.step:,}: saved {self._saved.name}")
            self._saved, self._saved_at = None, self._seconds

    def _stepped(self, event: Stepped) -> None:
        if self._limits is None:
            return
        self._seconds = event.seconds
        if self._began_at == (0, 0.0):
            self._began_at = (event.step, event.seconds)
        done, left = self._done_and_left(event, self._limits)
        text = (
            f"step {event.step:,}  epoch {event.epoch + 1}  loss {event.loss:.3f}  "
            f"{event.tokens_per_second:,.0f} tokens/s"
        )
        if left is not None:
            text += f"  left {minutes_and_seconds(left)}"
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=text, completed=done)
        elif event.seconds - self._said_at >= PLAIN_SECONDS:
            self._said_at = event.seconds
            say(text)

    def _validating(self, event: Validating) -> None:
        text = f"step {event.step:,}: validating"
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=text)
        else:
            say(text)

    def _done_and_left(self, event: Stepped, limits: Started) -> tuple[float, float | None]:
        """Share done, and seconds left until whichever limit comes first."""
        step, seconds = self._began_at
        by_steps = event.step / limits.max_steps
        left = None
        if event.step > step:
            left = (limits.max_steps - event.step) * (event.seconds - seconds) / (event.step - step)
        if limits.max_minutes is None:
            return by_steps, left
        limit = 60.0 * limits.max_minutes
        by_time, time_left = event.seconds / limit, max(0.0, limit - event.seconds)
        return max(by_steps, by_time), time_left if left is None else min(left, time_left)


def _limits_text(event: Started) -> str:
    limits = f"at most {event.max_steps:,} updates"
    return limits if event.max_minutes is None else f"{limits}, {event.max_minutes:g} minutes"


def _validation_text(event: Validated) -> str:
    bleu = "" if event.bleu is None else f"  BLEU {event.bleu:.1f} (greedy)"
    best = "  best so far" if event.best else ""
    return f"step {event.step:,}: dev loss {event.loss:.3f}  perplexity {event.perplexity:.2f} a subword{bleu}{best}"


def _ending_text(event: Ended) -> str:
    reasons = {
        "steps": "the limit of updates is reached",
        "minutes": "time is up (of all sessions together; --resume with more --max-minutes goes on)",
        "patience": "no better for long enough",
        "signal": "stopped by a signal; saved",
    }
    return (
        f"training ended after {event.step:,} updates and {minutes_and_seconds(event.seconds)}: "
        + reasons.get(event.reason, event.reason)
    )
