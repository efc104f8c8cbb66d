"""The training loop: updates, validation, checkpoints, until a limit or a signal.

Paper: 5, 5.2
"""

from __future__ import annotations

import gc
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import cast

import torch

from dragoman.bundle import BundleFacts
from dragoman.data.batches import Batch, BatchLoader, Cursor
from dragoman.errors import CheckpointError, VocabularyMismatch
from dragoman.model.transformer import Transformer
from dragoman.recipe import Recipe
from dragoman.training import compiled, explicit
from dragoman.training.checkpoint import Checkpoint, Place, kernels, save_checkpoint, threads
from dragoman.training.events import Emit, Ended, Said, Saved, Started, Stepped, Validated, Validating
from dragoman.training.following import average_for
from dragoman.training.learner import Learner
from dragoman.training.loss import over_the_others
from dragoman.training.loss_scale import LossScale
from dragoman.training.products import KINDS, Products, faster_by_onednn, pays, shapes_of
from dragoman.training.schedule import Cooldown, cooldown_due
from dragoman.training.step import Update, gradient, optimizer_for, update
from dragoman.training.stopping import StopRequest
from dragoman.training.validation import DevLoss, dev_loss

TEXT_DIGEST = "training text SHA-256"  # of the facts on the data
RATE_WINDOW = 50  # updates that tokens a second are measured over

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Task:
    """What a run works on.

    Attributes:
        loader: training batches from a cursor.
        dev: makes the dev batches anew each time; None: no validation.
        translate_dev: dev BLEU of the model as it is, or None.
        facts: what goes into each checkpoint.
        checkpoints: where they go.
        device: what computes.
    """

    loader: BatchLoader
    dev: Callable[[], Iterator[Batch]] | None
    translate_dev: Callable[[Learner], float] | None
    facts: BundleFacts
    checkpoints: Path
    device: torch.device = CPU


class Trainer:
    """One run in progress: the model, its optimizer and its place.

    Args:
        task: data, and where checkpoints go.
        recipe: the rules.
        emit: told of every event.
        resume: a checkpoint to go on from.

    Raises:
        CheckpointError: the checkpoint is of other batches, texts or sizes.
        VocabularyMismatch: the checkpoint is of other subwords.
    """

    def __init__(self, task: Task, recipe: Recipe, emit: Emit, *, resume: Checkpoint | None = None) -> None:
        self.task, self.recipe, self.emit = task, recipe, emit
        training = recipe.training
        self.model = task.facts.build(training.seed).to(task.device)
        self.optimizer = optimizer_for(self.model, recipe)
        self.average = average_for(self.optimizer, recipe)
        self.place = Place(
            step=0,
            epoch=0,
            batch=0,
            plan_digest=task.loader.plan.digest,
            threads=threads(),
            kernels=kernels(),
            loss_scale=None if (scale := LossScale.of(training.precision)) is None else astuple(scale),
        )
        self._saved_step: int | None = None
        self._validated_step: int | None = None
        if resume is not None:
            self._go_on_from(resume)
        self._recent: deque[tuple[float, int]] = deque(maxlen=RATE_WINDOW)

    def _go_on_from(self, checkpoint: Checkpoint) -> None:
        place = checkpoint.place
        self._check_same_run(checkpoint)
        checkpoint.load_into(self.optimizer, self.average)
        before, now = (f"{place.threads} threads", place.kernels), (f"{threads()} threads", kernels())
        for was, has in zip(before, now, strict=True):
            if was and was != has:
                self.emit(
                    Said(
                        f"the run had {was} and now has {has}: it goes on, but not bit for bit as it would have"
                    )
                )
        changes: dict[str, object] = {"threads": threads(), "kernels": kernels()}
        if self._cooldown_due(place.step, place.seconds) is None:  # the run is longer now than it was to be
            changes["cooldown"] = None
        changes["products"] = None if place.kernels != kernels() else place.products or ()
        if not self._can_compile:
            changes["compiled"] = None
        elif place.compiled:
            compiled.compile_layers(self.model)
        self.place = place.model_copy(update=changes)
        self._saved_step = place.step

    def _check_same_run(self, checkpoint: Checkpoint) -> None:
        then, now = checkpoint.bundle.facts, self.task.facts
        where = str(checkpoint.bundle.directory)
        cure = "go on with the recipe and corpus the run began with, or start a new run"
        if (then.source_subwords, then.target_subwords) != (now.source_subwords, now.target_subwords):
            raise VocabularyMismatch("the checkpoint is of other subwords", where=where, cure=cure)
        if then.config != now.config:
            raise CheckpointError("the checkpoint is of another size", where=where, cure=cure)
        if then.recipe.departures.architecture != now.recipe.departures.architecture:
            raise CheckpointError("the checkpoint is of another architecture", where=where, cure=cure)
        if then.recipe.departures != now.recipe.departures:
            raise CheckpointError("the checkpoint is of other rules", where=where, cure=cure)
        if checkpoint.place.plan_digest != self.place.plan_digest:
            raise CheckpointError(
                "the checkpoint counts other batches: corpus, budgets, max_length or seed have changed",
                where=where,
                cure=cure,
            )
        if then.data.get(TEXT_DIGEST) != now.data.get(TEXT_DIGEST):
            raise CheckpointError("the checkpoint is of another training text", where=where, cure=cure)

    def run(self, stop: StopRequest) -> str:
        """Trains until a limit or a request; a checkpoint stands at the end.

        Returns:
            Why it ended: "steps", "minutes", "patience" or "signal".
        """
        training = self.recipe.training
        self.emit(
            Started(
                step=self.place.step,
                max_steps=training.max_steps,
                max_minutes=training.max_minutes,
                batches_an_epoch=len(self.task.loader.plan),
                parameters=sum(p.numel() for p in self.model.parameters()),
                standing=self.task.facts.standing.banner(self.recipe.name),
            )
        )
        clock = _Clock(self.place.seconds)
        batches = self.task.loader.batches(Cursor(self.place.epoch, self.place.batch))
        generator = cast("Generator[tuple[Batch, Cursor], None, None]", batches)
        with closing(generator), _garbage_of_before_set_aside():
            while (reason := self._reason_to_stop(clock, stop)) is None:
                batch, cursor = next(batches)
                self._update(batch.to(self.task.device), cursor, clock)
                due = self._checkpoint_due(clock.seconds() - self.place.due_seconds)
                best = self._validate(clock) if self._validation_due(due) else False
                if due or best:
                    self._save(clock, scheduled=True)
        if self._saved_step != self.place.step:
            if reason != "signal" and self._validated_step != self.place.step:
                self._validate(clock)
            self._save(clock, scheduled=False)
        self.emit(Ended(self.place.step, reason, clock.seconds()))
        return reason

    def _reason_to_stop(self, clock: _Clock, stop: StopRequest) -> str | None:
        training = self.recipe.training
        if stop:
            return "signal"
        if self.place.step >= training.max_steps:
            return "steps"
        if training.max_minutes is not None and clock.seconds() >= 60.0 * training.max_minutes:
            return "minutes"
        if training.patience is not None and self.place.validations_without_best >= training.patience:
            return "patience"
        return None

    def _update(self, batch: Batch, cursor: Cursor, clock: _Clock) -> None:
        if self._can_compile and self.place.compiled is None:
            self._choose_form(batch)
        if self.place.products is None:
            self._choose_products()
        began, epoch, step = time.perf_counter(), self.place.epoch, self.place.step + 1
        cooldown = self._cooldown(clock.seconds())
        products = Products(self.place.products or ())
        scale = None if self.place.loss_scale is None else LossScale(*self.place.loss_scale)
        done = update(self.model, self.optimizer, batch, self.recipe, step, cooldown, products, scale)
        if self.average is not None:
            self.average.follow(step)
        self._recent.append((time.perf_counter() - began, batch.source_tokens + batch.target_tokens))
        self.place = self.place.model_copy(
            update={
                "step": step,
                "epoch": cursor.epoch,
                "batch": cursor.batch,
                "loss_scale": None if scale is None else astuple(scale.after(overflowed=done.overflowed)),
            }
        )
        self.emit(self._stepped(done, batch, epoch, clock, scale))

    @property
    def _can_compile(self) -> bool:
        return self.task.device.type == "cuda"

    def _choose_form(self, batch: Batch) -> None:
        """Layers as written or compiled, whichever is faster with this batch; no weight changes."""
        training = self.recipe.training

        def longest(seconds: float) -> float:
            minutes = math.inf if training.max_minutes is None else training.max_minutes
            return min(60.0 * minutes, seconds * (training.max_steps - self.place.step))

        def once() -> None:
            at_once = self.recipe.batch.tokens_at_once
            gradient(self.model, self.optimizer, batch, eps_ls=training.eps_ls, tokens_at_once=at_once)

        self.model.train()
        chosen = compiled.choose(self.model, once, longest_seconds=longest)
        self.place = self.place.model_copy(update={"compiled": chosen.compiled})
        self.emit(Said(chosen.said))

    def _choose_products(self) -> None:
        """Which library makes which product of matrices in float32 on a processor."""
        chosen: list[str] = []
        if isinstance(self.model, Transformer) and self._may_use_onednn(self.model):
            shapes, batch = shapes_of(self.model), self.recipe.batch
            rows = min(batch.target_tokens, batch.tokens_at_once)
            chosen = faster_by_onednn(shapes, rows, (self.place.kernels,))
            kinds = len(KINDS) * len(shapes)
            if chosen:
                self.emit(
                    Said(
                        f"{len(chosen)} of {kinds} kinds of matrix products are made by oneDNN, which was measured to "
                        "be faster here and as exact"
                    )
                )
        self.place = self.place.model_copy(update={"products": tuple(chosen)})

    def _may_use_onednn(self, model: Transformer) -> bool:
        """Where the gradient is written out in float32, and the run is long enough for a measurement."""
        training, tokens = self.recipe.training, self.recipe.batch.target_tokens
        here = self.task.device.type == "cpu" and explicit.serves(model) is not None
        long = pays(model, tokens, training.max_steps, training.max_minutes)
        return training.precision == "fp32" and here and long

    def _cooldown(self, seconds: float) -> Cooldown | None:
        """The cooldown as planned when it began; it then stays as it is, whatever the clock says."""
        if self.place.cooldown is None and (due := self._cooldown_due(self.place.step, seconds)) is not None:
            self.place = self.place.model_copy(update={"cooldown": (due.begin, due.steps)})
        return None if self.place.cooldown is None else Cooldown(*self.place.cooldown)

    def _cooldown_due(self, step: int, seconds: float) -> Cooldown | None:
        training = self.recipe.training
        share = self.recipe.optimizer.cooldown
        return cooldown_due(
            share, step, seconds, max_steps=training.max_steps, max_minutes=training.max_minutes
        )

    def _stepped(
        self, done: Update, batch: Batch, epoch: int, clock: _Clock, scale: LossScale | None
    ) -> Stepped:
        seconds, tokens = map(sum, zip(*self._recent, strict=True))
        return Stepped(
            step=self.place.step,
            epoch=epoch,
            loss=done.loss,
            nll=done.nll,
            rate=done.rate,
            gradient_norm=None if done.overflowed else done.gradient_norm,
            source_tokens=batch.source_tokens,
            target_tokens=batch.target_tokens,
            seconds=clock.seconds(),
            tokens_per_second=tokens / max(seconds, 1e-9),
            loss_scale=None if scale is None else scale.factor,
        )

    def _checkpoint_due(self, seconds_since: float) -> bool:
        training = self.recipe.training
        by_steps = training.checkpoint_steps is not None and self.place.step % training.checkpoint_steps == 0
        return by_steps or seconds_since >= 60.0 * training.checkpoint_minutes

    def _validation_due(self, checkpoint_due: bool) -> bool:
        every = self.recipe.training.validate_steps
        return checkpoint_due if every is None else self.place.step % every == 0

    def _validate(self, clock: _Clock) -> bool:
        """Validates; whether the loss is the best so far (a tie or NaN is not)."""
        if self.task.dev is None:
            return False
        self._validated_step = self.place.step
        self.emit(Validating(self.place.step))
        with nullcontext() if self.average is None else self.average.in_the_model():
            measured, bleu = self._measured(self.task.dev())
        best = measured.loss < (math.inf if self.place.best_loss is None else self.place.best_loss)
        changes: dict[str, float | int] = {
            "validations_without_best": self.place.validations_without_best + 1
        }
        if best:
            changes = {
                "best_loss": measured.loss,
                "best_step": self.place.step,
                "validations_without_best": 0,
            }
        self.place = self.place.model_copy(update=changes)
        self.emit(
            Validated(
                self.place.step, measured.loss, measured.perplexity, bleu, best=best, seconds=clock.seconds()
            )
        )
        return best

    def _measured(self, dev: Iterator[Batch]) -> tuple[DevLoss, float | None]:
        """Loss and BLEU of the model as it is."""
        batches = (batch.to(self.task.device) for batch in dev)
        spread = self.recipe.training_rules.spread or over_the_others
        loss = dev_loss(self.model, batches, self.recipe.training.eps_ls, spread)
        return loss, None if self.task.translate_dev is None else self.task.translate_dev(self.model)

    def _save(self, clock: _Clock, *, scheduled: bool) -> None:
        now = clock.seconds()
        changes: dict[str, float | bool] = {"seconds": now, "scheduled": scheduled}
        if scheduled:
            changes["due_seconds"] = now
        self.place = self.place.model_copy(update=changes)
        name = save_checkpoint(
            self.task.checkpoints,
            self.task.facts,
            self.optimizer,
            self.place,
            keep=self.recipe.training.keep_checkpoints,
            average=self.average,
        )
        self._saved_step = self.place.step
        self.emit(Saved(self.place.step, name))


@contextmanager
def _garbage_of_before_set_aside() -> Iterator[None]:
    """What exists now is not looked through for garbage again and again: 2% of a small model's time.

    A program that has set aside something of its own (`gc.freeze`) keeps it so.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class _Clock:
    """Seconds of training, those of earlier sessions included."""

    def __init__(self, before: float) -> None:
        self._start = time.monotonic() - before

    def seconds(self) -> float:
        return time.monotonic() - self._start
