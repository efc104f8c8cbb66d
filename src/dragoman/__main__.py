"""Where the `dragoman` command and `python -m dragoman` begin: signals and threads first, then the command line.

Paper: none (infrastructure)

Importing takes a second or more. Libraries turn an exception that a signal raises in the middle of that into errors of
their own, and nothing is there yet to be put in order: a signal that comes then ends the process at once.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

# How often a thread of libgomp looks again before it sleeps while it waits for others. Its own number is so large that
# one other busy process makes all of ours stand still; with this one, some microseconds, little is lost when alone.
SPINS = "20000"
EXIT_OF_SIGNAL = 128  # and the signal's number, as shells have it
_IMPORTING = "<frozen importlib._bootstrap>"


def main() -> None:
    """Runs the command line of this process."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        _leave_in_order(name)
    _wait_with_patience()
    from dragoman.cli.main import main as run

    run()


def _wait_with_patience() -> None:
    """Before PyTorch is imported, which reads this once; what the user has set stays."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


def _leave_in_order(name: str) -> None:
    """On this signal, leave through every `finally`, so that no temporary file stays; ignored if it was (nohup)."""
    number = getattr(signal, name, None)
    if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
        signal.signal(number, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    if _is_importing(frame):
        if number == signal.SIGINT:
            os.write(2, b"dragoman: stopped\n")  # `print` may be in the middle of something
        os._exit(EXIT_OF_SIGNAL + number)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(EXIT_OF_SIGNAL + number)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    main()
