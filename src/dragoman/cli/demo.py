"""`dragoman demo`: the whole path in some minutes.

Paper: 5, 6.1
"""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.options import Device, Json, Threads, use_threads
from dragoman.cli.talk import say
from dragoman.cli.training_talk import TrainingTalk


def demo(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory to make.")] = Path("demo"),
    download: Annotated[
        bool,
        typer.Option(
            "--download", help="Fetch Multi30k English-German (2 MB) where DRAGOMAN_DATA has it not."
        ),
    ] = False,
    grammar: Annotated[
        bool, typer.Option("--grammar", help="Use the built-in English-German grammar in any case.")
    ] = False,
    max_minutes: Annotated[
        float | None, typer.Option("--max-minutes", help="Of training; just under 10 unless given.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of everything random.")] = 1,
    device: Device = "cpu",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Train a small English-German translator, score it, and show what it does.

    Uses the 29,000 captions of Multi30k from DRAGOMAN_DATA, or with --download; else a grammar that is built in.
    About ten minutes on a laptop. A second call with the same --out replaces the first.
    """
    from dragoman.demo import run_demo

    use_threads(threads)
    with TrainingTalk() as talk:
        result = run_demo(
            out,
            download=download,
            grammar=grammar,
            max_minutes=max_minutes,
            seed=seed,
            device=device,
            say=say,
            on_event=talk,
        )
    if json:
        typer.echo(json_format.dumps(result.as_record(), ensure_ascii=False))
        return
    for line in result.lines():
        typer.echo(line)
