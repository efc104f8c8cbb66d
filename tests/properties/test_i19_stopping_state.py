"""I19: when a run stops and what was best do not depend on interruptions; ties and NaN never improve."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_runs import Killed, make_task, tiny_recipe

from dragoman.training import trainer as trainer_module
from dragoman.training.checkpoint import newest_checkpoint
from dragoman.training.events import Event, Saved, Stepped, Validated
from dragoman.training.step import Update
from dragoman.training.stopping import StopRequest
from dragoman.training.trainer import Trainer
from dragoman.training.validation import DevLoss

pytestmark = pytest.mark.usefixtures("quick_runs")
MAX_STEPS = 12
Ends = dict[int, str]  # update -> "signal" or "kill"


def expected(losses: list[float], *, every: int, patience: int) -> tuple[str, int, int | None]:
    """Why and when it ends and which update is best, worked out without any training."""
    best, best_step, waited = math.inf, None, 0
    for step in range(every, MAX_STEPS + 1, every):
        loss = losses[step]
        if loss < best:
            best, best_step, waited = loss, step, 0
        else:
            waited += 1
        if waited == patience and step < MAX_STEPS:
            return "patience", step, best_step
    if MAX_STEPS % every and losses[MAX_STEPS] < best:
        best_step = MAX_STEPS
    return "steps", MAX_STEPS, best_step


class Session:
    """One start of training, which a signal or a kill may end."""

    def __init__(self, corpus, folder: Path, recipe, ends: Ends, *, resume: bool) -> None:
        self.ends, self.stop = ends, StopRequest()
        self.validated: dict[int, bool] = {}
        self.doomed = False
        checkpoint = newest_checkpoint(folder, pytest.fail) if resume else None
        self.trainer = Trainer(make_task(corpus, folder, recipe), recipe, self.watch, resume=checkpoint)

    def watch(self, event: Event) -> None:
        if isinstance(event, Stepped) and event.step in self.ends:
            self.doomed = self.ends.pop(event.step) == "kill"
            self.stop.signal_name = None if self.doomed else "SIGTERM"
        elif isinstance(event, Validated):
            self.validated[event.step] = event.best
        elif isinstance(event, Saved) and self.doomed:
            raise Killed

    def go(self) -> str:
        try:
            return self.trainer.run(self.stop)
        except Killed:
            return "killed"


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    losses=st.lists(
        st.sampled_from([1.0, 2.0, 3.0, math.nan, math.inf]), min_size=MAX_STEPS + 1, max_size=MAX_STEPS + 1
    ),
    every=st.integers(1, 4),
    patience=st.integers(1, 4),
    ends=st.dictionaries(st.integers(1, MAX_STEPS - 1), st.sampled_from(["signal", "kill"]), max_size=3),
)
def test_interruptions_change_nothing(small_corpus, tmp_path_factory, losses, every, patience, ends):
    folder = tmp_path_factory.mktemp("run")
    recipe = tiny_recipe(
        "training.checkpoint_steps=2",
        f"training.validate_steps={every}",
        f"training.patience={patience}",
        f"training.max_steps={MAX_STEPS}",
    )
    with pytest.MonkeyPatch.context() as patch:
        sessions: list[Session] = []

        def scripted(*_arguments: object) -> DevLoss:
            loss = losses[sessions[-1].trainer.place.step]
            return DevLoss(loss, loss, 1)

        patch.setattr(trainer_module, "dev_loss", scripted)
        patch.setattr(trainer_module, "update", lambda *_arguments: Update(1.0, 1.0, 0.1, 1.0))
        reason, left = "", dict(ends)
        while not sessions or reason in ("signal", "killed"):
            sessions.append(Session(small_corpus, folder, recipe, left, resume=bool(sessions)))
            reason = sessions[-1].go()
    place = sessions[-1].trainer.place
    assert (reason, place.step, place.best_step) == expected(losses, every=every, patience=patience)
    assert newest_checkpoint(folder, pytest.fail).place.model_copy(
        update={"seconds": 0.0}
    ) == place.model_copy(update={"seconds": 0.0})
