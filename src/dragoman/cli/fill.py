"""`dragoman fill`: lines with hidden words in, as many whole lines out.

Later: Devlin et al. 2018, arXiv:1810.04805
"""

from __future__ import annotations

import json as json_format
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import BadBytesOption, Device, Json, Out, PrecisionOption, Threads, use_threads
from dragoman.cli.talk import counting, say
from dragoman.cli.units import check_before_work, runs_of_units

if TYPE_CHECKING:
    from dragoman.language.masked import Filled

MARK = "<mask>"


def fill(
    model: Annotated[Path, typer.Argument(help="A masked language model, or a run with one in it.")],
    lines: Annotated[
        str, typer.Argument(help="Text with marks in it, a unit a line; - is standard input.")
    ] = "-",
    *,
    out: Out = "-",
    mark: Annotated[str, typer.Option("--mark", help="How a hidden subword is written.")] = MARK,
    n_best: Annotated[
        int,
        typer.Option(
            "--n-best", min=1, help="Guesses at each mark: LINE, MARK, PROBABILITY and TEXT, tab-separated."
        ),
    ] = 1,
    bad_bytes: BadBytesOption = "refuse",
    device: Device = "cpu",
    precision: PrecisionOption = "fp32",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Fill hidden words into lines with a masked language model: N lines in, N lines out, in order.

    A mark stands for one subword; a space before it belongs to it. Each mark of a line is filled in by itself. A line
    without a mark stays as it is. --json gives one object a line: source, text, guesses.

    Example: echo "A man in a <mask> shirt." | dragoman fill run
    """
    from dragoman.language.masked import MaskedLanguageModel
    from dragoman.text.lines import write_units

    check_before_work(lines, out, bad_bytes=bad_bytes)
    use_threads(threads)
    loaded = MaskedLanguageModel.load(model, device=device, precision=precision)
    number = unmarked = 0

    def output() -> Iterator[str]:
        nonlocal number, unmarked
        with counting("fill", None, beside=out) as tick:
            for run in runs_of_units(lines, bad_bytes=bad_bytes):
                for filled in loaded.fill(run, n_best=n_best, mark=mark):
                    number += 1
                    unmarked += not filled.guesses
                    yield from _output(number, filled, n_best=n_best, json=json)
                tick(number)

    write_units(out, output())
    if number and unmarked == number:
        say(f"note: no line has a {mark} in it, so that nothing was filled in (--mark says another)")


def _output(number: int, filled: Filled, *, n_best: int, json: bool) -> Iterator[str]:
    if json:
        yield json_format.dumps(asdict(filled), ensure_ascii=False)
    elif n_best == 1:
        yield filled.text
    else:
        for place, guesses in enumerate(filled.guesses, start=1):
            for guess in guesses:
                yield f"{number}\t{place}\t{guess.probability:.4f}\t{guess.text}"
