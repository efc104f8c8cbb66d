"""The `dragoman` command: its verbs, its exit codes, and how errors are shown.

Paper: none (infrastructure)

Exit codes: 0 done; 2 an option, argument or recipe is not usable; 3 a text or prepared corpus is not usable; 4 a model or
checkpoint is not usable; 5 training met a loss that is not finite; 6 an optional library is missing; 75 training was
stopped by a signal after saving (go on with --resume); 130 stopped by Ctrl-C; 1 anything else.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from dragoman import __version__
from dragoman.cli import average, compare, demo, evaluate, prepare, recipe, score, train, translate
from dragoman.errors import DragomanError

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

app = typer.Typer(
    name="dragoman",
    help='Train, trust and run your own translator: the system of "Attention Is All You Need".',
    epilog="Start here: dragoman demo. Your own texts: prepare, train, translate, evaluate.",
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
app.command("score")(score.score)
app.command("evaluate")(evaluate.evaluate)
app.command("compare")(compare.compare)
app.add_typer(recipe.app, name="recipe")


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
    """Runs the command line; errors of users are told in words, without a traceback."""
    try:
        app()
    except DragomanError as error:
        print(f"dragoman: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output has gone (as `head` does): nothing to say, and nowhere to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_BROKEN_PIPE)
    except KeyboardInterrupt:
        print("dragoman: stopped", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
