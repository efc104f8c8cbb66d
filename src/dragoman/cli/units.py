"""Text for the verbs: units from a file or a pipe, in runs that are translated together.

Paper: none (infrastructure)
"""

from __future__ import annotations

import io
import os
import queue
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from dragoman.cli.options import BadBytes
from dragoman.text.lines import STANDARD_STREAM, check_text, read_units, refuse_to_overwrite

RUN_UNITS = 500  # enough to sort by length, few enough that an interrupted run has written most of its work


def runs_of_units(path: str, *, bad_bytes: BadBytes) -> Iterator[list[str]]:
    """Units in runs: at least one, at most RUN_UNITS.

    From a plain file as many as fit; from a pipe, a device or "-" as many as have come, at once, so that a pipe is
    answered line by line.

    Args:
        path: a file, or "-".
        bad_bytes: as in `read_units`.
    """
    if path == STANDARD_STREAM:
        yield from _runs_as_they_come(read_units(_standard_input(), bad_bytes=bad_bytes))
        return
    units = read_units(path, bad_bytes=bad_bytes)
    yield from _full_runs(units) if os.path.isfile(path) else _runs_as_they_come(units)


def check_before_work(path: str, out: str, *, bad_bytes: BadBytes) -> None:
    """Refuses, before a model is loaded, what would fail after half of the work.

    Args:
        path: what `runs_of_units` is to read.
        out: a file to write, or "-".
        bad_bytes: as there.

    Raises:
        ConfigError: `out` would overwrite what is read.
        DataError: bytes of the file are no text.
    """
    refuse_to_overwrite(out, path)
    if bad_bytes == "refuse" and os.path.isfile(path):  # a pipe can be read only once
        check_text(path)


class Scored(Protocol):
    """A text with its score."""

    @property
    def score(self) -> float:
        """The higher the better."""

    @property
    def text(self) -> str:
        """One line."""


def scored_lines(number: int, *found: Scored) -> Iterator[str]:
    """What was found for line `number`, the best first: number, score and text, tab-separated."""
    for each in found:
        yield f"{number}\t{each.score:.4f}\t{each.text}"


def _standard_input() -> BinaryIO:
    """Standard input apart from `sys.stdin`: Python aborts at its end where a thread still waits in that one."""
    try:
        descriptor = os.dup(sys.stdin.fileno())
    except (OSError, ValueError):  # no file of the system: what tests put there
        return sys.stdin.buffer
    raw = io.FileIO(descriptor)
    raw.name = "standard input"  # for error messages
    return io.BufferedReader(raw)


def _full_runs(units: Iterator[str]) -> Iterator[list[str]]:
    run: list[str] = []
    for unit in units:
        run.append(unit)
        if len(run) == RUN_UNITS:
            yield run
            run = []
    if run:
        yield run


class _End:
    """Put into the queue after the last unit, with what went wrong, if anything."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def _runs_as_they_come(units: Iterator[str]) -> Iterator[list[str]]:
    waiting: queue.Queue[str | _End] = queue.Queue(maxsize=RUN_UNITS)

    def read() -> None:
        try:
            for unit in units:
                waiting.put(unit)
        except BaseException as error:
            waiting.put(_End(error))
        else:
            waiting.put(_End(None))

    threading.Thread(target=read, name="dragoman-input", daemon=True).start()
    while True:
        run, end = _take(waiting)
        if run:
            yield run
        if end is not None:
            if end.error is not None:
                raise end.error
            return


def _take(waiting: queue.Queue[str | _End]) -> tuple[list[str], _End | None]:
    """Waits for one item and takes all that are there."""
    run: list[str] = []
    item = waiting.get()
    while True:
        if isinstance(item, _End):
            return run, item
        run.append(item)
        if len(run) == RUN_UNITS:
            return run, None
        try:
            item = waiting.get_nowait()
        except queue.Empty:
            return run, None
