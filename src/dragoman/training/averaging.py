"""Averages of checkpoints.

Paper: 6.1 ("averaging the last 5 checkpoints", 20 for the big model)
Silent: the mean (plain, of every weight, as tensor2tensor `utils/avg_checkpoints.py`); summed in float64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from dragoman.bundle import Bundle, open_bundle, write_bundle
from dragoman.errors import CheckpointError, ConfigError, VocabularyMismatch
from dragoman.training.checkpoint import checkpoint_names

OF_ONE_RUN = "average checkpoints of one run"


def average_weights(bundles: Sequence[Bundle]) -> dict[str, Tensor]:
    """The mean of each weight, in the number format of the weights.

    Raises:
        VocabularyMismatch: the models have different subwords.
        CheckpointError: the models have different sizes or departures.
    """

    def weights() -> Iterator[Mapping[str, Tensor]]:
        for bundle in bundles:
            _check_same_kind(bundles[0], bundle)
            yield bundle.weights()

    return mean_weights(weights())


def mean_weights(models: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each weight of models of one kind, one model in memory at a time; of at least one."""
    sums: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    count = 0
    for weights in models:
        count += 1
        for name, weight in weights.items():
            dtypes.setdefault(name, weight.dtype)
            wide = weight.double()
            sums[name] = sums[name] + wide if name in sums else wide
    return {name: (total / count).to(dtypes[name]) for name, total in sums.items()}


def _check_same_kind(first: Bundle, other: Bundle) -> None:
    if first.manifest.vocabularies != other.manifest.vocabularies:
        raise VocabularyMismatch(
            f"{first.directory.name} and {other.directory.name} have different subwords: "
            "they cannot be averaged",
            cure=OF_ONE_RUN,
        )
    if first.facts.config != other.facts.config:
        raise CheckpointError(
            f"{first.directory.name} and {other.directory.name} have different sizes: they cannot be averaged",
            cure=OF_ONE_RUN,
        )
    if first.facts.recipe.departures != other.facts.recipe.departures:
        raise CheckpointError(
            f"{first.directory.name} and {other.directory.name} have different departures: they cannot be averaged",
            cure=OF_ONE_RUN,
        )


def average_checkpoints(checkpoints: Sequence[Path], out: Path) -> Path:
    """Writes the average of the named checkpoints or models as a bundle.

    Args:
        checkpoints: directories; the order does not matter.
        out: the bundle to write; a bundle that stands there is replaced.

    Raises:
        ConfigError: none or the same one twice was named.
        CheckpointError: one cannot be opened, or they do not fit together.
    """
    paths = sorted({path.resolve() for path in checkpoints}, key=lambda path: (path.name, str(path)))
    if not paths:
        raise ConfigError("no checkpoint to average", cure="name one or more")
    if len(paths) < len(checkpoints):
        raise ConfigError(
            "the same checkpoint is named twice",
            where=", ".join(map(str, checkpoints)),
            cure="name each once",
        )
    bundles = [open_bundle(path) for path in paths]
    weights = average_weights(bundles)
    newest = max(bundles, key=lambda bundle: bundle.manifest.step)
    names = tuple(bundle.directory.name for bundle in bundles)
    write_bundle(out, newest.facts, weights, step=newest.manifest.step, averaged=names)
    return out


def last_checkpoints(directory: Path, count: int) -> list[Path]:
    """The newest `count` checkpoints of a run, or as many as there are.

    Raises:
        CheckpointError: there is none.
    """
    folder = directory / "checkpoints" if (directory / "checkpoints").is_dir() else directory
    names = checkpoint_names(folder)
    if not names:
        raise CheckpointError(f"no checkpoints in {directory}", cure="give the directory of a run")
    return [folder / name for name in names[-count:]]
