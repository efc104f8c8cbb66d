"""`dragoman score`: how probable a model finds given translations.

Paper: 6.1
"""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import Alpha, Device, Json, PrecisionOption, Threads, use_threads
from dragoman.cli.talk import say
from dragoman.errors import ConfigError, DataError


def score(
    model: Annotated[Path, typer.Argument(help="A model, or a run with one in it.")],
    source: Annotated[
        str, typer.Argument(help="Source text; with --pieces: the output of translate --json.")
    ],
    target: Annotated[str | None, typer.Argument(help="Its translation, line by line.")] = None,
    *,
    pieces: Annotated[
        bool,
        typer.Option("--pieces", help="Score the pieces that translate --json wrote: reproduces its scores."),
    ] = False,
    alpha: Alpha = None,
    device: Device = "cpu",
    precision: PrecisionOption = "fp32",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Score given translations: log P / ((5 + n) / 6)^alpha, a number a line, or by the penalty of the model's recipe.

    Example: dragoman score run input.txt translation.txt
    """
    from dragoman.pipeline import chunks
    from dragoman.text.lines import read_units
    from dragoman.translator import Translator

    use_threads(threads)
    if pieces:
        if target is not None:
            raise ConfigError(f"--pieces takes no translation, but {target} was given", cure="leave it out")
        sources, rows = _read_pieces(source)
    else:
        if target is None:
            raise ConfigError(
                "no translation to score", cure="give TARGET, or --pieces with the output of translate --json"
            )
        sources, texts = list(read_units(source)), list(read_units(target))
        if len(sources) != len(texts):
            raise DataError(
                f"{source} has {len(sources)} lines, {target} has {len(texts)}",
                cure="give one translation for each line",
            )
    translator = Translator.load(model, device=device, precision=precision)
    start = 0
    for run in chunks(sources):
        stop = start + len(run)
        if pieces:
            scores = translator.score_pieces(run, rows[start:stop], alpha=alpha)
        else:
            scores = translator.score(run, texts[start:stop], alpha=alpha)
        for number, value in enumerate(scores, start=start + 1):
            typer.echo(json_format.dumps({"line": number, "score": value}) if json else f"{value:.6f}")
        start = stop


def _read_pieces(path: str) -> tuple[list[str], list[list[str]]]:
    from dragoman.text.lines import name_of, read_units

    sources, rows = [], []
    for number, line in enumerate(read_units(path), start=1):
        source, pieces, flags = _read_record(line, where=f"{name_of(path)}, line {number}")
        if cut := [flag for flag in flags if flag != "replaced"]:
            say(f"warning: line {number} was {' and '.join(cut)}: the score translate gave is not reproduced")
        sources.append(source)
        rows.append(pieces)
    return sources, rows


def _read_record(line: str, *, where: str) -> tuple[str, list[str], list[str]]:
    try:
        record = json_format.loads(line)
        source, pieces, flags = record["source"], record["pieces"], record.get("flags", [])
        texts = [source, *pieces, *flags]
        if not (
            isinstance(pieces, list) and isinstance(flags, list) and all(isinstance(t, str) for t in texts)
        ):
            raise TypeError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise DataError(
            "this is not an object with source and pieces, as translate --json writes them",
            where=where,
            cure="score lines of text, or what translate --json wrote",
        ) from None
    return source, pieces, flags
