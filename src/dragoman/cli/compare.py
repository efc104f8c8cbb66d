"""`dragoman compare`: whether one translation is better than another, or only luckier.

Paper: none (infrastructure)
"""

from __future__ import annotations

import json as json_format
from typing import Annotated, Literal

import typer

from dragoman.cli.options import Json, TargetLanguage
from dragoman.cli.talk import say


def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="One translation.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another translation of the same text.")],
    reference: Annotated[str, typer.Argument(help="The reference translation.")],
    *,
    metric: Annotated[
        Literal["bleu", "chrf", "paper"], typer.Option("--metric", help="What to compare by.")
    ] = "bleu",
    samples: Annotated[int, typer.Option("--samples", min=100, help="Resampled test sets.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the resampling.")] = 12345,
    target_language: TargetLanguage = None,
    json: Json = False,
) -> None:
    """Compare two translations of one text by paired bootstrap resampling.

    Example: dragoman compare ours.de theirs.de test.de
    """
    from dragoman.data.language_codes import language_of
    from dragoman.scoring.compare import compare as run
    from dragoman.text.lines import read_units, refuse_standard_input_twice

    refuse_standard_input_twice(first, second, reference)
    units = [list(read_units(path)) for path in (first, second, reference)]
    result = run(
        units[0],
        units[1],
        units[2],
        metric=metric,
        samples=samples,
        seed=seed,
        target_language=target_language or language_of(reference),
        hypothesis_name_a=first,
        hypothesis_name_b=second,
        reference_name=reference,
    )
    if json:
        typer.echo(json_format.dumps(result.as_dict(), ensure_ascii=False))
        return
    typer.echo(result.format())
    if units[0] == units[1]:
        say("note: A and B are the same, line for line")
