"""`dragoman fidelity`: how a recipe, a model or a run stands to the paper, choice by choice.

Paper: none (infrastructure)
"""

from __future__ import annotations

import json as json_format
from typing import Annotated

import typer

from dragoman.cli.options import Json, tell_of_compiling
from dragoman.cli.talk import say
from dragoman.errors import ConfigError


def fidelity(
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE|MODEL|RUN",
            help="A recipe's name or .toml file, or the directory of a model or a run.",
            show_default=False,
        ),
    ] = None,
    *,
    like: Annotated[
        str | None,
        typer.Option(
            "--like",
            metavar="SYSTEM",
            help="In place of a subject, what a system does by default: fairseq, tensor2tensor, annotated, marian, "
            "joeynmt, torch.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="Change a field of a recipe; repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Print how a recipe, a model or a run stands to the paper, choice by choice.

    Each choice has a level (architecture, recipe, scale), a verdict, the section of the paper that speaks of it, and
    what is done here. Verdicts: as published; silent (the paper leaves it open); scaled (the paper's rule with another
    number); departure (another rule). What is done is measured: on a small model of the same parts, on updates and
    searches.

    Examples: dragoman fidelity base; dragoman fidelity run; dragoman fidelity tiny --set optimizer.beta_2=0.997;
    dragoman fidelity --like fairseq
    """
    from dragoman.fidelity.report import report_like, report_on, table

    tell_of_compiling()
    if subject is not None and like is None:
        report = report_on(subject, set_ or [])
    elif like is not None and subject is None:
        report = report_like(like, set_ or [])
    else:
        raise ConfigError(
            "one of RECIPE|MODEL|RUN and --like is due",
            cure="name what to measure, as in: dragoman fidelity base",
        )
    if json:
        typer.echo(json_format.dumps(report.as_dict(), ensure_ascii=False))
        return
    typer.echo(report.banner)
    for line in table(report.standing):
        typer.echo(line)
    departures = report.standing.departures
    typer.echo(f"departures: {len(departures) or 'none'}")
    for finding in departures:
        typer.echo(f"  {finding}")
    if report.source is not None:
        typer.echo(f"read from: {report.source}")
        typer.echo("what it does otherwise still:")
        for said in report.not_expressed:
            typer.echo(f"  {said}")
    for finding in report.changed:
        say(f"warning: when this model was trained, {finding.choice} was not {finding.here}")
