"""Checkpoints: a model bundle with the optimizer's moments and the place in training.

Paper: none (infrastructure)

A run's `checkpoints/` holds `step-N` directories and two files, `latest` and `best`, each naming one of them. A
checkpoint is written whole or not at all; the files that name it move after it is durable; old ones go last.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import ValidationError
from torch import Tensor

from dragoman.bundle import Bundle, BundleFacts, open_bundle, read_tensors, write_bundle, write_tensors
from dragoman.data.durable import sync_directory, sync_file
from dragoman.data.manifest import Count, Record
from dragoman.errors import CheckpointError
from dragoman.training.optimizer import FlatAdam

OPTIMIZER, PLACE = "optimizer.safetensors", "training.json"
LATEST, BEST = "latest", "best"
_NAME = re.compile(r"step-(\d+)")


class Place(Record):
    """Where training is, and what it must remember beside weights and moments.

    Attributes:
        step: updates done.
        epoch, batch: the data's cursor after them.
        plan_digest: the batches the cursor counts.
        best_loss, best_step: lowest dev loss and its update.
        validations_without_best: since then, for early stopping.
        seconds: training time of all sessions.
        threads: of torch, on which the last bits depend.
    """

    step: Count
    epoch: Count
    batch: Count
    plan_digest: str
    best_loss: float | None = None
    best_step: Count | None = None
    validations_without_best: Count = 0
    seconds: float = 0.0
    threads: Count = 1


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint."""

    bundle: Bundle
    place: Place

    @property
    def name(self) -> str:
        """The directory's name, `step-N`."""
        return self.bundle.directory.name

    def load_into(self, optimizer: FlatAdam) -> None:
        """Sets weights and moments.

        Raises:
            CheckpointError: a tensor is missing, damaged or of another shape; nothing was set.
        """
        shapes = {name: tuple(view.shape) for name, view in optimizer.moments().items()}
        moments = read_tensors(self.bundle.directory / OPTIMIZER, expected=shapes)
        optimizer.load(self.bundle.weights(), moments, self.place.step)


def save_checkpoint(
    directory: Path, facts: BundleFacts, optimizer: FlatAdam, place: Place, *, keep: int, best: bool
) -> str:
    """Writes `step-N`, moves the pointers and removes the oldest beyond `keep` (never the best).

    Returns:
        The checkpoint's name.
    """
    name = f"step-{place.step:08d}"

    def more(temporary: Path) -> None:
        write_tensors(temporary / OPTIMIZER, optimizer.moments())
        text = place.model_dump_json(indent=2) + "\n"
        (temporary / PLACE).write_text(text, encoding="utf-8", newline="\n")

    weights: dict[str, Tensor] = optimizer.weights()
    write_bundle(directory / name, facts, weights, step=place.step, kind="checkpoint", more=more)
    _point(directory / LATEST, name)
    if best:
        _point(directory / BEST, name)
    _remove_old(directory, keep)
    return name


def _point(pointer: Path, name: str) -> None:
    temporary = pointer.with_name(f".{pointer.name}.partial")
    temporary.write_text(name + "\n", encoding="utf-8", newline="\n")
    sync_file(temporary)
    os.replace(temporary, pointer)
    sync_directory(pointer.parent)


def _remove_old(directory: Path, keep: int) -> None:
    names = checkpoint_names(directory)
    best = read_pointer(directory / BEST)
    for name in names[:-keep]:
        if name != best:
            shutil.rmtree(directory / name, ignore_errors=True)


def checkpoint_names(directory: Path) -> list[str]:
    """Names of the checkpoints in a directory, oldest first."""
    if not directory.is_dir():
        return []
    found = [(int(m[1]), path.name) for path in directory.iterdir() if (m := _NAME.fullmatch(path.name))]
    return [name for _, name in sorted(found)]


def read_pointer(pointer: Path) -> str | None:
    """The checkpoint a pointer names, or None."""
    try:
        return pointer.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def open_checkpoint(directory: Path) -> Checkpoint:
    """Opens one checkpoint after checking every file.

    Raises:
        CheckpointError: it is missing, damaged, or a model without what training needs to go on.
    """
    bundle = open_bundle(directory)
    try:
        place = Place.model_validate_json((directory / PLACE).read_bytes())
    except FileNotFoundError:
        raise CheckpointError(f"{directory} is a model, not a checkpoint: training cannot go on from it") from None
    except (OSError, ValidationError) as error:
        raise CheckpointError(f"the place in training cannot be read: {error}", where=str(directory)) from None
    return Checkpoint(bundle, place)


def newest_checkpoint(directory: Path, say: Callable[[str], None]) -> Checkpoint:
    """The newest checkpoint that is whole; damaged ones are passed over, and that is said.

    Raises:
        CheckpointError: there is none.
    """
    names = checkpoint_names(directory)
    for name in reversed(names):
        try:
            return open_checkpoint(directory / name)
        except CheckpointError as error:
            say(f"checkpoint {name} is passed over: {error.what}")
    raise CheckpointError(
        f"no {'whole ' if names else ''}checkpoint in {directory}",
        cure="start anew without --resume, in another directory",
    )


def threads() -> int:
    """Threads torch computes with."""
    return torch.get_num_threads()
