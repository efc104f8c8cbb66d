"""The loop: what is done after which update, when it ends, and what it refuses to go on from.

Paper: 5, 5.2
"""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_runs import make_task, sha256_of, tiny_recipe

from dragoman.errors import CheckpointError, NonFiniteLoss, VocabularyMismatch
from dragoman.training import trainer as trainer_module
from dragoman.training.checkpoint import checkpoint_names, newest_checkpoint, read_pointer
from dragoman.training.events import Ended, Event, Said, Saved, Started, Stepped, Validated
from dragoman.training.stopping import StopRequest
from dragoman.training.trainer import TEXT_DIGEST, Trainer
from dragoman.training.validation import DevLoss

pytestmark = pytest.mark.usefixtures("quick_runs")
NEVER = "training.checkpoint_steps=none"


class Run:
    """A trainer and all it said."""

    def __init__(self, corpus, folder: Path, *changes: str, resume: bool = False, **options) -> None:
        self.events: list[Event] = []
        self.stop = StopRequest()
        self.watch: Callable[[Event], None] = lambda _event: None
        recipe = tiny_recipe(*changes)
        task = make_task(corpus, folder, recipe, **options)
        checkpoint = newest_checkpoint(folder, pytest.fail) if resume else None
        self.trainer = Trainer(task, recipe, self.emit, resume=checkpoint)

    def emit(self, event: Event) -> None:
        self.events.append(event)
        self.watch(event)

    def go(self) -> str:
        return self.trainer.run(self.stop)

    def of(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    def steps_of(self, kind: type) -> list[int]:
        return [event.step for event in self.of(kind)]


class Time:
    """A clock that moves only when an update is done."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch) -> Time:
    clock = Time()
    monkeypatch.setattr(trainer_module, "time", clock)
    return clock


def each_update_takes(time: Time, seconds: float, run: Run) -> Run:
    def pass_time(event: Event) -> None:
        if isinstance(event, Stepped):
            time.now += seconds

    run.watch = pass_time
    return run


def script_dev_losses(monkeypatch, losses: Sequence[float]) -> None:
    """The k-th validation measures losses[k]; the last one again and again after that."""
    left = list(losses)

    def scripted(model, batches, *_rules):
        next(iter(batches))
        loss = left.pop(0) if len(left) > 1 else left[0]
        return DevLoss(loss, loss, 1)

    monkeypatch.setattr(trainer_module, "dev_loss", scripted)


def test_the_loss_falls(corpus, tmp_path):
    run = Run(corpus, tmp_path, "training.max_steps=60", NEVER, "optimizer.factor=1.0")
    assert run.go() == "steps"
    losses = [event.loss for event in run.of(Stepped)]
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])
    (validated,) = run.of(Validated)
    assert validated.loss < losses[0]
    assert validated.perplexity < math.exp(losses[0])


def test_events_come_in_order_and_tell_the_truth(corpus, tmp_path):
    run = Run(corpus, tmp_path, "training.max_steps=4", "training.checkpoint_steps=2")
    run.go()
    names = [type(event).__name__ for event in run.events]
    two = ["Stepped", "Stepped", "Validating", "Validated", "Saved"]
    assert names == ["Started", *two, *two, "Ended"]
    started, ended = run.events[0], run.events[-1]
    assert isinstance(started, Started)
    assert (started.step, started.max_steps, started.max_minutes) == (0, 4, None)
    assert started.batches_an_epoch == len(run.trainer.task.loader.plan)
    assert started.parameters == sum(p.numel() for p in run.trainer.model.parameters())
    assert started.standing.startswith("Vaswani et al. 2017: architecture and recipe as published")
    assert isinstance(ended, Ended)
    assert (ended.step, ended.reason) == (4, "steps")
    assert run.steps_of(Stepped) == [1, 2, 3, 4]
    for event, (batch, _) in zip(run.of(Stepped), run.trainer.task.loader.batches(), strict=False):
        assert (event.source_tokens, event.target_tokens) == (batch.source_tokens, batch.target_tokens)
        assert event.rate == pytest.approx(2 * 16**-0.5 * event.step * 20**-1.5)
        assert event.tokens_per_second > 0


def test_epochs_are_counted_from_zero(small_corpus, tmp_path):
    run = Run(small_corpus, tmp_path, "training.max_steps=12", NEVER)
    length = len(run.trainer.task.loader.plan)
    run.go()
    assert [event.epoch for event in run.of(Stepped)] == [k // length for k in range(12)]
    assert (run.trainer.place.epoch, run.trainer.place.batch) == divmod(12, length)


@pytest.mark.parametrize("every", [1, 2, 5])
def test_a_due_save_is_never_skipped(small_corpus, tmp_path, every):
    """B43: at the end of an epoch as little as elsewhere; and at the end always."""
    run = Run(small_corpus, tmp_path, "training.max_steps=11", f"training.checkpoint_steps={every}")
    run.go()
    assert run.steps_of(Saved) == sorted({*range(every, 12, every), 11})
    assert checkpoint_names(tmp_path)[-1] == "step-00000011"


def test_a_checkpoint_every_so_many_minutes(corpus, tmp_path, time):
    run = Run(corpus, tmp_path, NEVER, "training.checkpoint_minutes=1.0", "training.max_steps=8")
    each_update_takes(time, 25.0, run).go()
    assert run.steps_of(Saved) == [3, 6, 8]
    assert run.steps_of(Validated) == [3, 6, 8]
    assert run.of(Ended)[0].seconds == 200.0


def test_the_minutes_between_checkpoints_are_of_all_sessions(corpus, tmp_path, time):
    """Else a run that is interrupted often would never come to a checkpoint that counts."""
    changes = (NEVER, "training.checkpoint_minutes=1.0", "training.max_steps=8")
    run = Run(corpus, tmp_path, *changes, "training.max_steps=2")
    each_update_takes(time, 25.0, run).go()
    again = Run(corpus, tmp_path, *changes, resume=True)
    each_update_takes(time, 25.0, again).go()
    assert again.steps_of(Saved) == [3, 6, 8]


def test_a_checkpoint_of_a_stop_gives_way_to_the_next(corpus, tmp_path):
    """What is averaged at the end shall not depend on interruptions."""
    changes = ("training.checkpoint_steps=4", "training.keep_checkpoints=3")
    for stop in (5, 6, 8, 9):
        Run(corpus, tmp_path, *changes, f"training.max_steps={stop}", resume=stop > 5, validate=False).go()
        expected = {5: [4, 5], 6: [4, 6], 8: [4, 8], 9: [4, 8, 9]}[stop]
        assert checkpoint_names(tmp_path) == [f"step-{step:08d}" for step in expected]
    Run(corpus, tmp_path, *changes, "training.max_steps=16", resume=True, validate=False).go()
    assert checkpoint_names(tmp_path) == [f"step-{step:08d}" for step in (8, 12, 16)]


def test_it_ends_after_so_many_minutes_of_all_sessions(corpus, tmp_path, time):
    run = Run(corpus, tmp_path, NEVER, "training.max_minutes=2.0", "training.max_steps=5")
    assert each_update_takes(time, 20.0, run).go() == "steps"
    time.now += 1e6  # between two sessions
    run = Run(corpus, tmp_path, NEVER, "training.max_minutes=2.0", "training.max_steps=50", resume=True)
    assert each_update_takes(time, 5.0, run).go() == "minutes"
    assert run.steps_of(Stepped) == [6, 7, 8, 9]
    assert run.of(Ended)[0].seconds == 120.0
    again = Run(corpus, tmp_path, NEVER, "training.max_minutes=2.0", "training.max_steps=50", resume=True)
    assert again.go() == "minutes"
    assert again.steps_of(Stepped) == []


def rates(run: Run) -> list[float]:
    return [event.rate for event in run.of(Stepped)]


def test_the_rate_falls_at_the_end_where_the_recipe_asks_for_it(corpus, tmp_path):
    plain = Run(corpus, tmp_path / "plain", NEVER, "training.max_steps=10", validate=False)
    plain.go()
    run = Run(
        *(corpus, tmp_path / "falls", NEVER, "training.max_steps=10", "optimizer.cooldown=0.4"),
        validate=False,
    )
    run.go()
    factors = [cooled / whole for cooled, whole in zip(rates(run), rates(plain), strict=True)]
    fall = [1.0 - 0.95 * k / 4 for k in (1, 2, 3, 4)]
    assert factors == pytest.approx([1.0] * 6 + fall, rel=1e-12)


def test_a_fall_by_minutes_is_planned_once_and_kept_over_sessions(corpus, tmp_path, time):
    """Whatever the pace is after that: the rate is a matter of the update alone."""
    changes = (NEVER, "training.max_minutes=2.0", "optimizer.cooldown=0.5")
    run = Run(corpus, tmp_path, *changes, "training.max_steps=8", validate=False)
    each_update_takes(time, 10.0, run).go()
    # By steps the fall begins after 4 of 8; by minutes it would after 6.
    assert run.trainer.place.cooldown == (4, 4)
    again = Run(corpus, tmp_path, *changes, "training.max_steps=8", resume=True, validate=False)
    assert again.trainer.place.cooldown == (4, 4)
    # With more steps to come, by minutes: 8 updates took 80 seconds, so 4 are left in the 40.
    longer = Run(corpus, tmp_path, *changes, "training.max_steps=50", resume=True, validate=False)
    assert longer.trainer.place.cooldown == (4, 4)
    each_update_takes(time, 10.0, longer).go()
    assert longer.trainer.place.step == 12


def test_a_run_made_longer_takes_up_the_papers_rate_again(corpus, tmp_path):
    changes = (NEVER, "optimizer.cooldown=0.25")
    Run(corpus, tmp_path, *changes, "training.max_steps=8", validate=False).go()
    again = Run(corpus, tmp_path, *changes, "training.max_steps=40", resume=True, validate=False)
    assert again.trainer.place.cooldown is None
    again.go()
    assert again.trainer.place.cooldown == (30, 10)


def test_speed_is_of_the_last_updates(corpus, tmp_path, time, monkeypatch):
    monkeypatch.setattr(trainer_module, "RATE_WINDOW", 3)
    real = trainer_module.update

    def slow(*arguments):
        time.now += 2.0
        return real(*arguments)

    monkeypatch.setattr(trainer_module, "update", slow)
    run = Run(corpus, tmp_path, NEVER, "training.max_steps=6")
    run.go()
    tokens = [event.source_tokens + event.target_tokens for event in run.of(Stepped)]
    assert run.of(Stepped)[-1].tokens_per_second == pytest.approx(sum(tokens[3:]) / 6.0)
    assert run.of(Stepped)[0].tokens_per_second == pytest.approx(tokens[0] / 2.0)


def test_patience_ties_and_nan(corpus, tmp_path, monkeypatch):
    """I19: a tie, a NaN and an infinity are no improvement; the count starts anew at each best."""
    nan, inf = math.nan, math.inf
    script_dev_losses(monkeypatch, [inf, 5.0, 5.0, 4.0, nan, 4.0, inf, 3.0])
    run = Run(corpus, tmp_path, "training.checkpoint_steps=1", "training.patience=3", "training.max_steps=50")
    assert run.go() == "patience"
    assert [event.best for event in run.of(Validated)] == [False, True, False, True, False, False, False]
    assert run.trainer.place.best_loss == 4.0
    assert run.trainer.place.best_step == 4
    assert run.steps_of(Stepped)[-1] == 7
    assert read_pointer(tmp_path / "best") == "step-00000004"
    assert checkpoint_names(tmp_path) == ["step-00000004", "step-00000006", "step-00000007"]
    again = Run(corpus, tmp_path, "training.patience=3", "training.max_steps=50", resume=True)
    assert again.go() == "patience"
    assert again.steps_of(Stepped) == []


def test_the_best_is_saved_though_no_checkpoint_is_due(corpus, tmp_path, monkeypatch):
    script_dev_losses(monkeypatch, [5.0, 6.0, 4.0, 7.0])
    run = Run(corpus, tmp_path, NEVER, "training.validate_steps=2", "training.max_steps=9")
    run.go()
    assert run.steps_of(Validated) == [2, 4, 6, 8, 9]
    assert run.steps_of(Saved) == [2, 6, 9]
    assert read_pointer(tmp_path / "best") == "step-00000006"
    assert read_pointer(tmp_path / "latest") == "step-00000009"


def test_the_last_update_is_validated_once(corpus, tmp_path, monkeypatch):
    script_dev_losses(monkeypatch, [5.0, 6.0])
    run = Run(corpus, tmp_path, NEVER, "training.validate_steps=2", "training.max_steps=4")
    run.go()
    assert run.steps_of(Validated) == [2, 4]
    assert run.steps_of(Saved) == [2, 4]
    assert run.trainer.place.validations_without_best == 1


def test_without_a_dev_set_there_is_no_validation(corpus, tmp_path):
    run = Run(corpus, tmp_path, "training.max_steps=4", "training.checkpoint_steps=2", validate=False)
    run.go()
    assert run.steps_of(Validated) == []
    assert run.steps_of(Saved) == [2, 4]
    assert read_pointer(tmp_path / "best") is None


def test_a_request_ends_it_after_the_update_with_a_checkpoint(corpus, tmp_path):
    """I40: what is begun is finished; no validation keeps the user waiting."""
    run = Run(corpus, tmp_path, NEVER)

    def ask(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == 3:
            run.stop.signal_name = "SIGTERM"

    run.watch = ask
    assert run.go() == "signal"
    assert [type(event).__name__ for event in run.events[-3:]] == ["Stepped", "Saved", "Ended"]
    assert run.steps_of(Saved) == [3]


def test_a_request_before_the_first_update(corpus, tmp_path):
    run = Run(corpus, tmp_path)
    run.stop.signal_name = "SIGINT"
    assert run.go() == "signal"
    assert run.steps_of(Saved) == [0]
    again = Run(corpus, tmp_path, "training.max_steps=3", resume=True)
    assert again.go() == "steps"
    straight = Run(corpus, tmp_path / "straight", "training.max_steps=3")
    straight.go()
    assert sha256_of(again.trainer.optimizer.weights()) == sha256_of(straight.trainer.optimizer.weights())


def test_going_on_at_the_end_does_nothing(corpus, tmp_path):
    Run(corpus, tmp_path, "training.max_steps=2").go()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    again = Run(corpus, tmp_path, "training.max_steps=2", resume=True)
    assert again.go() == "steps"
    assert [type(event).__name__ for event in again.events] == ["Started", "Ended"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_bf16_keeps_float32_masters_in_its_checkpoints(corpus, tmp_path):
    run = Run(corpus, tmp_path, "training.precision=bf16", "training.max_steps=3")
    run.go()
    assert run.trainer.model.dtype == torch.bfloat16
    weights = newest_checkpoint(tmp_path, pytest.fail).bundle.weights()
    assert {weight.dtype for weight in weights.values()} == {torch.float32}
    assert any(not torch.equal(weight, weight.bfloat16().float()) for weight in weights.values())


def test_divergence_leaves_the_last_checkpoint(corpus, tmp_path):
    run = Run(corpus, tmp_path, "training.checkpoint_steps=2")

    def poison(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == 3:
            with torch.no_grad():
                next(run.trainer.model.parameters()).fill_(math.nan)

    run.watch = poison
    with pytest.raises(NonFiniteLoss, match="update 4"):
        run.go()
    assert newest_checkpoint(tmp_path, pytest.fail).place.step == 2


@pytest.mark.parametrize("end", ["steps", "error"])
def test_no_thread_is_left_behind(corpus, tmp_path, end):
    run = Run(corpus, tmp_path, "training.max_steps=3", prefetch=2)

    def fail(event: Event) -> None:
        assert any(thread.name == "dragoman-prefetch" for thread in threading.enumerate())
        if end == "error":
            raise KeyError

    run.watch = lambda event: fail(event) if isinstance(event, Stepped) else None
    if end == "error":
        with pytest.raises(KeyError) as caught:  # the error, and with it the frames, is still held
            run.go()
        assert caught
    else:
        run.go()
    assert not any(thread.name == "dragoman-prefetch" for thread in threading.enumerate())


@pytest.mark.parametrize("before", [False, True], ids=["nothing", "something"])
def test_only_what_it_set_aside_itself_is_looked_through_again(corpus, tmp_path, before):
    """A program that froze what it had (before it forks, say) finds that so afterwards."""
    run = Run(corpus, tmp_path, "training.max_steps=1")
    frozen: list[int] = []
    run.watch = lambda event: frozen.append(gc.get_freeze_count()) if isinstance(event, Stepped) else None
    if not before:
        gc.unfreeze()
    try:
        run.go()
        assert frozen[0] > 0
        assert (gc.get_freeze_count() > 0) == before
    finally:
        gc.freeze()  # as `conftest.py` left it


def resumed(corpus, folder: Path, task_change, *changes: str) -> Trainer:
    recipe = tiny_recipe(*changes)
    task = task_change(make_task(corpus, folder, recipe))
    return Trainer(task, recipe, lambda _event: None, resume=newest_checkpoint(folder, pytest.fail))


@pytest.mark.parametrize(
    "change",
    ["batch.source_tokens=90", "batch.target_tokens=120", "training.seed=2", "batch.max_length=12"],
)
def test_other_batches_are_refused(corpus, tmp_path, change):
    """B39."""
    Run(corpus, tmp_path, "training.max_steps=1").go()
    with pytest.raises(CheckpointError, match="counts other batches: corpus, budgets, max_length or seed"):
        resumed(corpus, tmp_path, lambda task: task, change)


def test_another_training_text_is_refused(corpus, tmp_path):
    """Of the same lengths, so that the batches are the same."""
    Run(corpus, tmp_path, "training.max_steps=1").go()

    def other_text(task):
        return replace(task, facts=replace(task.facts, data={TEXT_DIGEST: "0" * 64}))

    with pytest.raises(CheckpointError, match="another training text"):
        resumed(corpus, tmp_path, other_text)


def test_other_subwords_are_refused(corpus, small_corpus, tmp_path):
    Run(corpus, tmp_path, "training.max_steps=1").go()

    def other_subwords(task):
        other = small_corpus.source_subwords
        return replace(task, facts=replace(task.facts, source_subwords=other, target_subwords=other))

    with pytest.raises(VocabularyMismatch):
        resumed(corpus, tmp_path, other_subwords)


def test_another_size_is_refused_before_a_weight_is_set(corpus, tmp_path):
    Run(corpus, tmp_path, "training.max_steps=1").go()
    with pytest.raises(CheckpointError, match="another size"):
        resumed(corpus, tmp_path, lambda task: task, "model.d_ff=48")


def test_another_number_of_threads_is_told(corpus, tmp_path, monkeypatch):
    Run(corpus, tmp_path, "training.max_steps=1").go()
    monkeypatch.setattr(trainer_module, "threads", lambda: 7)
    run = Run(corpus, tmp_path, "training.max_steps=2", resume=True)
    (said,) = run.of(Said)
    assert "had 1 threads and now has 7" in said.text
    run.go()
    assert newest_checkpoint(tmp_path, pytest.fail).place.threads == 7


def test_other_kernels_are_told(corpus, tmp_path, monkeypatch):
    Run(corpus, tmp_path, "training.max_steps=1").go()
    before = newest_checkpoint(tmp_path, pytest.fail).place.kernels
    assert f"torch {torch.__version__}".startswith(before.split(",")[0].split("+")[0])
    assert torch.backends.cpu.get_cpu_capability() in before
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    run = Run(corpus, tmp_path, "training.max_steps=2", resume=True)
    (said,) = run.of(Said)
    assert f"had {before} and now has {before}, MKL_CBWR=COMPATIBLE: it goes on" in said.text
    run.go()
    assert newest_checkpoint(tmp_path, pytest.fail).place.kernels == f"{before}, MKL_CBWR=COMPATIBLE"
