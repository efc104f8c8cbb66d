"""`dragoman train`: a prepared corpus into a model.

Paper: 5
"""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dragoman.cli.options import Device, Json, Precision, Threads, use_threads
from dragoman.cli.talk import say
from dragoman.cli.training_talk import TrainingTalk

EXIT_SAVED = 75

if TYPE_CHECKING:
    from dragoman.recipe import Recipe


def train(
    prepared: Annotated[Path, typer.Argument(help="What `dragoman prepare` wrote.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory of the run.")],
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe", help="A recipe's name or .toml file; chosen for corpus and machine unless given."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="SECTION.FIELD=VALUE", help="Change a field of the recipe; repeatable."
        ),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option("--max-steps", min=1, help="Stop after so many updates.")
    ] = None,
    max_minutes: Annotated[
        float | None,
        typer.Option(
            "--max-minutes",
            help="Stop after so many minutes, earlier sessions counted; a last validation comes on top.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of weights, order and dropout.")
    ] = None,
    precision: Annotated[
        Precision | None, typer.Option("--precision", help="Number format; the recipe's unless given.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    device: Device = "cpu",
    threads: Threads = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard scalars into the run as well.")
    ] = False,
    json: Json = False,
) -> None:
    """Train a model, and average its last checkpoints.

    The run's directory gets recipe.toml, events.jsonl, checkpoints/ and, at the end, model/. Ctrl-C, SIGTERM and SIGHUP
    save a checkpoint and end with exit code 75: go on with --resume.

    Example: dragoman train prepared --out run
    """
    from dragoman.pipeline import train as run
    from dragoman.recipes.named import read_recipe

    use_threads(threads)
    short = {
        "training.max_steps": max_steps,
        "training.max_minutes": max_minutes,
        "training.seed": seed,
        "training.precision": precision,
    }
    changes = [*(set_ or []), *(f"{field}={value}" for field, value in short.items() if value is not None)]
    with TrainingTalk() as talk:
        result = run(
            prepared,
            out,
            recipe=None if recipe is None else read_recipe(recipe),
            changes=changes,
            resume=resume,
            device=device,
            tensorboard=tensorboard,
            on_event=talk,
        )
    if json:
        model = None if result.model is None else str(result.model)
        typer.echo(json_format.dumps({"run": str(out), "model": model, "reason": result.reason}))
    if result.interrupted:
        say(f"go on with: dragoman train {prepared} --out {out} --resume")
        raise typer.Exit(EXIT_SAVED)
    if not json:
        say(f"model: {result.model} (the average of the last checkpoints)")
        say(f"next: dragoman {_verb_for(result.recipe)} {out} < input.txt")


def _verb_for(recipe: Recipe) -> str:
    """What uses a model of this recipe."""
    from dragoman.variants.departures import DecoderOnly, EncoderOnly, stack_of

    match stack_of(recipe.departures.architecture):
        case DecoderOnly():
            return "generate"
        case EncoderOnly():
            return "fill"
        case None:
            return "translate"
