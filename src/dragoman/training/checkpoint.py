"""Checkpoints: a model bundle with the optimizer's moments and the place in training.

Paper: none (infrastructure)

A run's `checkpoints/` holds `step-N` directories and two files, `latest` and `best`, each naming one of them.
A checkpoint is written whole or not at all; the files that name it move after it is durable; old ones go last.
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

from dragoman import native
from dragoman.bundle import OPTIMIZER, PLACE, Bundle, BundleFacts, open_bundle, read_pointer, write_bundle
from dragoman.data.durable import remove_directory, sync_directory, sync_file
from dragoman.data.manifest import Count, Record
from dragoman.data.tensors import COPY_AGAIN, read_tensors, write_tensors
from dragoman.errors import CheckpointError, DataError
from dragoman.provenance import processor, version_of
from dragoman.training.following import OF_TRAINING, MovingAverage
from dragoman.training.optimizer import FlatAdam

LATEST, BEST = "latest", "best"
_KERNEL_SETTINGS = (
    "ATEN_CPU_CAPABILITY",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
)
_NAME = re.compile(r"step-(\d+)")
_UNFINISHED = re.compile(r"\.step-\d+\.(partial|old)-[0-9a-f]+|\.(latest|best)\.partial")


class Place(Record):
    """Where training is, and what it must remember beside weights and moments.

    Attributes:
        step: updates done.
        epoch, batch: the data's cursor after them.
        plan_digest: the batches the cursor counts.
        best_loss, best_step: lowest dev loss and its update.
        validations_without_best: since then, for early stopping.
        seconds: training time of all sessions.
        scheduled: the checkpoint was due, or the best so far; not written only because training stopped.
        due_seconds: training time when the last scheduled one was written.
        threads: of torch, on which the last bits depend.
        kernels: what else they depend on: processor, instructions, version of torch.
        cooldown: begin and number of updates of the fall of the rate at the run's end, once it is planned.
        compiled: whether layers are compiled; None: not yet chosen.
        products: which matrix products oneDNN makes (`training.products`); None: not yet chosen.
        loss_scale: factor, and updates since it changed (`training.loss_scale`); None: not in fp16.
    """

    step: Count
    epoch: Count
    batch: Count
    plan_digest: str
    best_loss: float | None = None
    best_step: Count | None = None
    validations_without_best: Count = 0
    seconds: float = 0.0
    scheduled: bool = True
    due_seconds: float = 0.0
    threads: Count = 1
    kernels: str = ""
    cooldown: tuple[Count, Count] | None = None
    compiled: bool | None = None
    products: tuple[str, ...] | None = None
    loss_scale: tuple[float, Count] | None = None


@dataclass(frozen=True)
class Checkpoint:
    """An opened checkpoint."""

    bundle: Bundle
    place: Place

    @property
    def name(self) -> str:
        """The directory's name, `step-N`."""
        return self.bundle.directory.name

    def load_into(self, optimizer: FlatAdam, average: MovingAverage | None = None) -> None:
        """Sets weights and moments, and the average of the weights where there is one.

        Raises:
            CheckpointError: a tensor is missing, damaged or of another shape; nothing was set.
        """
        own = {} if average is None else average.of_training()
        shapes = {name: tuple(view.shape) for name, view in (optimizer.moments() | own).items()}
        stored = read_tensors(self.bundle.directory / OPTIMIZER, expected=shapes)
        weights = self.bundle.weights()
        if average is not None:
            average.load(weights)
            weights = {name: stored[OF_TRAINING + name] for name in weights}
        optimizer.load(weights, stored, self.place.step)


def save_checkpoint(
    directory: Path,
    facts: BundleFacts,
    optimizer: FlatAdam,
    place: Place,
    *,
    keep: int,
    average: MovingAverage | None = None,
) -> str:
    """Writes `step-N`, moves the pointers and removes the oldest beyond `keep` (never the best).

    Checkpoints of later updates are removed too: they are damaged ones that training went on without. So are
    those written only because training stopped, for they are no part of the run that was not interrupted.

    Returns:
        The checkpoint's name.

    Raises:
        DataError: the directory cannot be written.
    """
    name = checkpoint_name(place.step)
    if not directory.exists():
        directory.mkdir(parents=True)
        sync_directory(directory.parent)

    own = {} if average is None else average.of_training()

    def more(temporary: Path) -> None:
        write_tensors(temporary / OPTIMIZER, optimizer.moments() | own)
        text = place.model_dump_json(indent=2) + "\n"
        (temporary / PLACE).write_text(text, encoding="utf-8", newline="\n")

    weights: dict[str, Tensor] = optimizer.weights() if average is None else average.weights()
    write_bundle(directory / name, facts, weights, step=place.step, kind="checkpoint", more=more)
    write_durably(directory / LATEST, name + "\n")
    _point_to_best(directory, place.best_step)
    _remove_others(directory, name, keep)
    return name


def checkpoint_name(step: int) -> str:
    """The directory of the checkpoint after that many updates."""
    return f"step-{step:08d}"


def write_durably(path: Path, text: str) -> None:
    """Writes a small file whole or not at all, and makes it durable.

    Raises:
        DataError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.partial")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        sync_file(temporary)
        os.replace(temporary, path)
        sync_directory(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DataError(
            f"cannot write the file: {error.strerror or error}",
            where=str(path),
            cure="free space, or look after the disk; the checkpoints that stand there are whole",
        ) from error


def _point_to_best(directory: Path, best_step: int | None) -> None:
    """`best` follows what training remembers, also after it went back to an earlier checkpoint."""
    pointer = directory / BEST
    name = None if best_step is None else checkpoint_name(best_step)
    if name is None or not (directory / name).is_dir():
        pointer.unlink(missing_ok=True)
    elif read_pointer(pointer) != name:
        write_durably(pointer, name + "\n")


def _remove_others(directory: Path, newest: str, keep: int) -> None:
    names = checkpoint_names(directory)
    before = [name for name in names[: names.index(newest)] if not _is_stopgap(directory / name)]
    keeping = {newest, *before[max(0, len(before) - keep + 1) :], read_pointer(directory / BEST)}
    for name in names:
        if name not in keeping:
            remove_directory(directory / name)


def _is_stopgap(checkpoint: Path) -> bool:
    try:
        return not Place.model_validate_json((checkpoint / PLACE).read_bytes()).scheduled
    except (OSError, ValidationError):
        return False


def remove_unfinished(directory: Path) -> None:
    """Removes what a killed process left half written; nothing else may be writing there."""
    if not directory.is_dir():
        return
    for path in directory.iterdir():
        if _UNFINISHED.fullmatch(path.name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def checkpoint_names(directory: Path) -> list[str]:
    """Names of the checkpoints in a directory, oldest first."""
    if not directory.is_dir():
        return []
    found = [(int(m[1]), path.name) for path in directory.iterdir() if (m := _NAME.fullmatch(path.name))]
    return [name for _, name in sorted(found)]


def open_checkpoint(directory: Path) -> Checkpoint:
    """Opens one checkpoint after checking every file.

    Raises:
        CheckpointError: it is missing, damaged, or a model without what training needs to go on.
    """
    bundle = open_bundle(directory)
    if bundle.manifest.kind != "checkpoint":
        raise CheckpointError(
            f"{directory} is a model, not a checkpoint: training cannot go on from it",
            cure="name a directory in a run's checkpoints/",
        )
    try:
        place = Place.model_validate_json((directory / PLACE).read_bytes())
    except (OSError, ValidationError) as error:
        raise CheckpointError(
            f"the place in training cannot be read: {error}", where=str(directory), cure=COPY_AGAIN
        ) from None
    if checkpoint_name(place.step) != directory.name:
        raise CheckpointError(
            f"the checkpoint is not of the update its name says, but of {place.step}",
            where=str(directory),
            cure=f"give it back its name, {checkpoint_name(place.step)}",
        )
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


def kernels() -> str:
    """What computes: torch's version, the processor and its instructions, our own kernels, settings of the user."""
    compiled = native.kernels()
    facts = [
        f"torch {version_of('torch')}",
        processor(),
        torch.backends.cpu.get_cpu_capability(),
        "no native kernels" if compiled is None else f"native kernels {compiled.digest}",
    ]
    return ", ".join(
        [*facts, *(f"{name}={os.environ[name]}" for name in _KERNEL_SETTINGS if name in os.environ)]
    )
