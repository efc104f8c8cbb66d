"""What a person sees while training."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from dragoman.cli import talk, training_talk
from dragoman.cli.training_talk import PLAIN_SECONDS, TrainingTalk
from dragoman.training.events import Ended, Said, Saved, Started, Stepped, Validated, Validating


def started(step=0, max_steps=100, max_minutes=None):
    return Started(
        step, max_steps, max_minutes, batches_an_epoch=1234, parameters=2_500_000, standing="as published"
    )


def stepped(step, seconds, epoch=0):
    return Stepped(
        step,
        epoch,
        loss=2.5,
        nll=2.0,
        rate=1e-3,
        gradient_norm=1.0,
        source_tokens=100,
        target_tokens=100,
        seconds=seconds,
        tokens_per_second=12345.6,
    )


def said(events, capsys):
    with TrainingTalk() as tell:
        for event in events:
            tell(event)
    return capsys.readouterr().err.splitlines()


def test_the_start_says_sizes_and_limits(capsys):
    lines = said([started(max_steps=10_000)], capsys)
    assert lines == [
        "as published",
        "2,500,000 parameters, 1,234 batches an epoch, at most 10,000 updates",
    ]
    assert said([started(max_minutes=9.0)], capsys)[1].endswith("at most 100 updates, 9 minutes")


def test_updates_are_said_now_and_then(capsys):
    events = [started()] + [stepped(step, seconds=float(step)) for step in range(1, 40)]
    lines = [line for line in said(events, capsys) if line.startswith("step")]
    assert [line.split()[1] for line in lines] == [
        "1",
        str(1 + int(PLAIN_SECONDS)),
        str(1 + 2 * int(PLAIN_SECONDS)),
    ]
    assert lines[1] == "step 16  epoch 1  loss 2.500  12,346 tokens/s  left 1:24"


def test_time_left_is_that_of_the_limit_that_comes_first(capsys):
    def left(limits, seconds_a_step):
        events = [limits, stepped(1, seconds_a_step), stepped(11, 11 * seconds_a_step + PLAIN_SECONDS)]
        return said(events, capsys)[-1].split()[-1]

    # 89 steps of 1 + 1.5 seconds, or what is left of a minute, or of an hour.
    assert left(started(max_steps=100), 1.0) == "3:42"
    assert left(started(max_steps=100, max_minutes=1.0), 1.0) == "0:34"
    assert left(started(max_steps=100, max_minutes=60.0), 1.0) == "3:42"


def test_a_validation_is_told_when_it_begins(capsys):
    assert said([started(), Validating(4_000)], capsys)[-1] == "step 4,000: validating"


def test_a_run_that_went_on_is_timed_from_where_it_did(capsys):
    lines = said([started(step=50), stepped(51, 500.0), stepped(61, 520.0)], capsys)
    assert lines[-1].endswith("left 1:18")
    assert lines[2].endswith("tokens/s")  # nothing is known yet of what is left


def test_checkpoints_are_told_at_most_once_a_minute_and_the_last_one_always(capsys):
    events = [started()]
    for step in range(1, 14):
        events += [stepped(step, 15.0 * step), Saved(step, f"step-{step}")]
    lines = said([*events, Ended(13, "steps", 195.0)], capsys)
    told = [line for line in lines if "saved" in line]
    assert told == [f"step {step}: saved step-{step}" for step in (1, 5, 9, 13)]
    assert len([line for line in lines if "loss" in line]) == 13


def test_the_last_checkpoint_is_told_before_the_end(capsys):
    events = [started(), stepped(1, 1.0), Saved(1, "step-1"), stepped(2, 2.0), Saved(2, "step-2")]
    assert said([*events, Ended(2, "signal", 2.0)], capsys)[-2:] == [
        "step 2: saved step-2",
        "training ended after 2 updates and 0:02: stopped by a signal; saved",
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Saved(1200, "step-00001200"), "step 1,200: saved step-00001200"),
        (Said("a note"), "a note"),
        (
            Validated(1200, 2.3456, 6.789, 31.25, best=True, seconds=1.0),
            "step 1,200: dev loss 2.346  perplexity 6.79 a subword  BLEU 31.2 (greedy)  best so far",
        ),
        (
            Validated(5, 2.0, 6.0, None, best=False, seconds=1.0),
            "step 5: dev loss 2.000  perplexity 6.00 a subword",
        ),
        (
            Ended(10, "steps", 61.0),
            "training ended after 10 updates and 1:01: the limit of updates is reached",
        ),
        (
            Ended(10, "minutes", 61.0),
            "training ended after 10 updates and 1:01: time is up "
            "(of all sessions together; --resume with more --max-minutes goes on)",
        ),
        (Ended(10, "patience", 61.0), "training ended after 10 updates and 1:01: no better for long enough"),
        (Ended(10, "signal", 61.0), "training ended after 10 updates and 1:01: stopped by a signal; saved"),
        (Ended(10, "other", 61.0), "training ended after 10 updates and 1:01: other"),
    ],
)
def test_each_event_has_its_line(event, line, capsys):
    assert said([event], capsys) == [line]


def test_an_update_before_the_start_is_passed_over(capsys):
    assert said([stepped(1, 1.0)], capsys) == []


def test_who_watches_gets_a_bar(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    console = Console(stderr=True, force_terminal=True, force_interactive=True, highlight=False, width=200)
    monkeypatch.setattr(talk, "stderr", console)
    monkeypatch.setattr(training_talk, "stderr", console)
    with TrainingTalk() as tell:
        for event in (started(), stepped(1, 1.0), stepped(50, 50.0), Saved(50, "step-50")):
            tell(event)
    text = sys.stderr.getvalue()
    assert "step 50  epoch 1  loss 2.500" in text
    assert "step 50: saved step-50" in text


def test_the_bar_goes_when_training_fails(monkeypatch):
    stopped = []
    monkeypatch.setattr(sys, "stderr", type("T", (io.StringIO,), {"isatty": lambda _: True})())
    tell = TrainingTalk()
    monkeypatch.setattr(tell._progress, "stop", lambda: stopped.append(True))
    with pytest.raises(ZeroDivisionError), tell:
        raise ZeroDivisionError
    assert stopped == [True]
    tell._progress.live.stop()
