"""The `dragoman` command: its verbs, its exit codes, and how errors are shown.

Paper: none (infrastructure)

Exit codes: 0 done; 2 an option, argument or recipe is not usable; 3 a text or prepared corpus is not usable; 4 a model or
checkpoint is not usable; 5 training met a loss that is not finite; 6 an optional library is missing; 75 training was
stopped by a signal after saving (go on with --resume); 130 stopped by Ctrl-C; 141 the reader of the output has gone;
143 (129) stopped by SIGTERM (SIGHUP); 1 anything else.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dragoman import __version__
from dragoman.cli import (
    average,
    compare,
    demo,
    evaluate,
    fidelity,
    fill,
    generate,
    prepare,
    recipe,
    score,
    shortlist,
    train,
    translate,
)
from dragoman.cli.talk import visible
from dragoman.errors import CHECK_PATH, DragomanError

EXIT_OTHER = 1
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
STDOUT_NUMBER = 1
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_MEMORY = """there is not enough memory for this
  cure:  work on less at once (batch.tokens_at_once in training, fewer long lines), or take a smaller model"""


class Verbs(TyperGroup):
    """Runs a verb; what went wrong is told in words, without a traceback, and with the exit code of its kind."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the verb of the command line.

        Raises:
            SystemExit: the verb failed, and that has been told.
        """
        try:
            return super().invoke(ctx)
        except DragomanError as error:
            raise _ended(str(error), error.exit_code) from None
        except KeyboardInterrupt:
            raise _ended("stopped", EXIT_INTERRUPTED) from None
        except MemoryError:
            raise _ended(_NO_MEMORY, EXIT_OTHER) from None
        except OSError as error:
            if error.errno == errno.EPIPE:
                _let_go_of_output()
                raise SystemExit(EXIT_BROKEN_PIPE) from None
            raise _ended(_in_words(error), EXIT_OTHER) from None


def _ended(text: str, code: int) -> SystemExit:
    lines = "\n".join(visible(line) for line in f"dragoman: {text}".split("\n"))
    print(lines, file=sys.stderr)
    return SystemExit(code)


def _in_words(error: OSError) -> str:
    if error.errno == errno.EBADF and error.filename is None:
        return "standard output is closed, so that nothing can be written to it\n  cure:  give it a file, or /dev/null"
    reason = error.strerror or str(error) or type(error).__name__
    where = f"\n  where: {error.filename}" if error.filename else ""
    cure = "free some space, or write elsewhere" if error.errno in _FULL else CHECK_PATH
    return f"{reason}{where}\n  cure:  {cure}"


def _let_go_of_output() -> None:
    """The reader has gone (as `head` does): what is still buffered has nowhere to go, and that is no news."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except io.UnsupportedOperation:  # standard output is no file here
        return


app = typer.Typer(
    name="dragoman",
    cls=Verbs,
    help='Train, trust and run your own translator: the system of "Attention Is All You Need".',
    epilog=(
        "Start here: dragoman demo. Your own texts: prepare, train, translate, evaluate. Exit codes: 0 done; 2 option or "
        "recipe, 3 text, 4 model not usable; 5 loss not finite; 6 library missing; 75 training stopped and saved "
        "(go on with --resume); 130, 143 stopped by Ctrl-C, SIGTERM; 141 reader of the output gone; 1 anything else."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("demo")(demo.demo)
app.command("prepare")(prepare.prepare)
app.command("train")(train.train)
app.command("average")(average.average)
app.command("translate")(translate.translate)
app.command("shortlist")(shortlist.shortlist)
app.command("score")(score.score)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.command("generate")(generate.generate)
app.command("fill")(fill.fill)
app.add_typer(recipe.app, name="recipe")
app.command("fidelity")(fidelity.fidelity)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dragoman {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Nothing is done before the verb."""


def main() -> None:
    """Runs the command line of this process."""
    _open_standard_streams()
    try:
        app()
    except OSError as error:  # of --help and --version, which are told before a verb is known
        raise _ended(_in_words(error), EXIT_OTHER) from None


def _open_standard_streams() -> None:
    """Text is UTF-8 whatever the locale; input that the caller closed reads as empty."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, nowhere if name == "stderr" else _closed_output())
        elif isinstance(stream, io.TextIOWrapper):
            # A file name need not be UTF-8; JSON reads the escape back as what it stands for.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _closed_output() -> io.TextIOWrapper:
    """Its number is taken, so that no file that is opened later gets it; what is written to it is an error."""
    place = os.open(os.devnull, os.O_RDONLY)
    if place != STDOUT_NUMBER:
        os.dup2(place, STDOUT_NUMBER)
        os.close(place)
    return io.TextIOWrapper(io.FileIO(STDOUT_NUMBER, "wb", closefd=False), encoding="utf-8")
