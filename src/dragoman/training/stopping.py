"""Ctrl-C, SIGTERM and SIGHUP: a request to stop that training looks at between two updates.

Paper: none (infrastructure)
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

REPEAT_SECONDS = 1.0  # a signal so soon after the first is the same request


class StopRequest:
    """Whether somebody asked to stop."""

    def __init__(self) -> None:
        self.signal_name: str | None = None
        self.seconds = 0.0  # of the monotonic clock, when it came

    def __bool__(self) -> bool:
        return self.signal_name is not None


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turns SIGINT, SIGTERM and SIGHUP into a request; a second one acts at once, as always, but not within a second.

    (A key held down, or a supervisor that signals a process and its group, sends the same request twice.)

    SIGHUP, which ends a session's commands when its connection is lost, stays ignored where it is (nohup).
    Outside the main thread, where Python allows no handlers, signals keep their meaning.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    # None: a handler that was not set from Python and cannot be set back from it.
    before = {s: signal.getsignal(s) or signal.SIG_DFL for s in (signal.SIGINT, signal.SIGTERM)}
    if (hang_up := getattr(signal, "SIGHUP", None)) and signal.getsignal(hang_up) != signal.SIG_IGN:
        before[hang_up] = signal.getsignal(hang_up) or signal.SIG_DFL

    def ask(number: int, _frame: FrameType | None) -> None:
        if request and time.monotonic() - request.seconds >= REPEAT_SECONDS:
            for each, handler in before.items():
                signal.signal(each, handler)
            signal.raise_signal(number)
        if not request:
            request.signal_name, request.seconds = signal.Signals(number).name, time.monotonic()

    for number in before:
        signal.signal(number, ask)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
