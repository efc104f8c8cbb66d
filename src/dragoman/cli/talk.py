"""Talk goes to standard error: plain lines, or a progress bar where a person is watching.

Paper: none (infrastructure)
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Talk(Console):
    """A console whose reader may go: what was asked for is done all the same, and nobody is told."""

    def on_broken_pipe(self) -> None:
        """Rich would end the process here, in the middle of a training step."""
        self.quiet = True
        with contextlib.suppress(OSError):  # where standard error is no file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


# Nothing in a text or a file name is an instruction to the console: no markup, no `:names:` of pictures.
stderr = Talk(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def say(text: str) -> None:
    """One line to standard error."""
    stderr.print("\n".join(visible(line) for line in text.split("\n")))


def visible(text: str) -> str:
    """The text with every character that does not print written as an escape: a terminal obeys some of them."""
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text)


def is_watched() -> bool:
    """A person may be looking at standard error."""
    return sys.stderr.isatty()


@contextmanager
def counting(label: str, total: int | None, *, beside: str = "") -> Iterator[Callable[[int], None]]:
    """A bar that is told how many are done; nothing where nobody watches.

    Args:
        label: what is counted.
        total: how many there will be, if that is known.
        beside: where output goes meanwhile; where that is the terminal itself, there is no bar in it.
    """
    if not is_watched() or (beside == "-" and sys.stdout.isatty()):
        yield lambda _done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


def minutes_and_seconds(seconds: float) -> str:
    """90 -> "1:30", 4000 -> "1:06:40"."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, seconds_left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{seconds_left:02}" if hours else f"{minutes}:{seconds_left:02}"
