"""`dragoman average`: checkpoints into one model.

Paper: 6.1
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dragoman.cli.talk import say


def average(
    checkpoints: Annotated[list[Path], typer.Argument(help="A run, or checkpoints by name.")],
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Directory of the model to write.")],
    last: Annotated[
        int | None,
        typer.Option("--last", min=1, help="Of a run: how many of its last checkpoints (paper: 5; big: 20)."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a model that stands at --out.")
    ] = False,
) -> None:
    """Average the weights of checkpoints into a model.

    Example: dragoman average run --last 5 --out model
    """
    from dragoman.bundle import read_manifest
    from dragoman.pipeline import average as run

    one_run = len(checkpoints) == 1 and not (checkpoints[0] / "manifest.json").is_file()
    written = run(checkpoints[0] if one_run else checkpoints, out, last=last, overwrite=overwrite)
    names = read_manifest(written).averaged
    if last is not None and len(names) < last:
        say(f"note: the run has {len(names)} to average, not {last}")
    if (apart := different_runs(checkpoints)) is not None:
        say(
            f"warning: these are of different runs ({apart}): the mean of two runs' weights is seldom a good model"
        )
    say(f"wrote {written}, the average of {len(names)}: {', '.join(names)}")


def different_runs(checkpoints: list[Path]) -> str | None:
    """What tells apart the runs these are of, if they are named one by one."""
    from dragoman.bundle import open_bundle
    from dragoman.training.trainer import TEXT_DIGEST

    if len(checkpoints) < 2:
        return None
    facts = [open_bundle(path).facts for path in checkpoints]
    for name, values in (
        ("recipe", [f.recipe.name for f in facts]),
        ("seed", [f.recipe.training.seed for f in facts]),
        ("text", [f.data.get(TEXT_DIGEST) for f in facts]),
    ):
        if len(set(values)) > 1:
            return f"{name} {' and '.join(map(str, dict.fromkeys(values)))}"
    return None
