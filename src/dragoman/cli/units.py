"""Text for the verbs: units from a file or a pipe, in runs that are translated together.

Paper: none (infrastructure)
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Literal

from dragoman.text.lines import read_units

RUN_UNITS = 2_000


def runs_of_units(path: str, *, bad_bytes: Literal["refuse", "replace"], live: bool) -> Iterator[list[str]]:
    """Units in runs: as many as are there, at least one, at most RUN_UNITS.

    Args:
        path: a file, or "-".
        bad_bytes: as in `read_units`.
        live: give what has come so far at once, so that a pipe is answered line by line.
    """
    units = read_units(path, bad_bytes=bad_bytes)
    if not live:
        run: list[str] = []
        for unit in units:
            run.append(unit)
            if len(run) == RUN_UNITS:
                yield run
                run = []
        if run:
            yield run
        return
    yield from _runs_as_they_come(units)


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
