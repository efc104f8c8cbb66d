"""`dragoman score`: how probable a model finds given translations.

Paper: 6.1
"""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import Alpha, Device, Json, Precision, PrecisionOption, Threads, use_threads
from dragoman.cli.talk import say
from dragoman.errors import ConfigError, DataError


def score(
    model: Annotated[Path, typer.Argument(help="A model, or a run with one in it.")],
    source: Annotated[
        str, typer.Argument(help="Source text; with --pieces: the output of translate --json.")
    ],
    target: Annotated[
        str | None, typer.Argument(help="Its translation, line by line; none of a model of one text.")
    ] = None,
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

    Of a language model: log P of each line of a text; of a masked one the sum of the log P of its subwords, each hidden
    by itself.

    Examples: dragoman score run input.txt translation.txt; dragoman score lm-run text.txt
    """
    from dragoman.pipeline import chunks
    from dragoman.text.lines import read_units
    from dragoman.translator import Translator

    use_threads(threads)
    if pieces:
        if target is not None:
            raise ConfigError(f"--pieces takes no translation, but {target} was given", cure="leave it out")
        sources, rows = _read_pieces(source)
    elif target is None:
        if alpha is not None:
            raise ConfigError("--alpha is for translations", cure="leave it out, or give TARGET")
        _score_text(model, source, device=device, precision=precision, json=json)
        return
    else:
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
        _print(scores, start, json=json)
        start = stop


def _score_text(model: Path, text: str, *, device: str, precision: Precision, json: bool) -> None:
    from dragoman.language.evaluation import log_probabilities
    from dragoman.language.loading import load
    from dragoman.pipeline import chunks
    from dragoman.text.lines import read_units

    loaded = load(
        model,
        device=device,
        precision=precision,
        cure="give TARGET, or --pieces with the output of translate --json",
    )
    start = 0
    for run in chunks(list(read_units(text))):
        _print(log_probabilities(loaded, run), start, json=json)
        start += len(run)


def _print(scores: list[float], start: int, *, json: bool) -> None:
    for number, value in enumerate(scores, start=start + 1):
        typer.echo(json_format.dumps({"line": number, "score": value}) if json else f"{value:.6f}")


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
