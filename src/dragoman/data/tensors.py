"""Tensors in safetensors files, read only where names, shapes and number formats are the expected ones.

Paper: none (infrastructure)
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from dragoman.errors import CheckpointError

_UMASK = os.umask(0)  # can only be read by setting it
os.umask(_UMASK)
COPY_AGAIN = "copy the model again, or use another checkpoint"  # the cure of what is damaged


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Writes tensors as a safetensors file.

    Raises:
        OSError: the file cannot be written.
    """
    try:
        save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, path, metadata)
    except SafetensorError as error:
        raise OSError(None, str(error), str(path)) from error
    path.chmod(0o666 & ~_UMASK)  # it is written for its owner alone, unlike the files beside it


def read_tensors(path: Path, *, expected: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Reads a safetensors file of exactly the expected names and shapes, all numbers finite.

    Raises:
        CheckpointError: it is damaged, or something is missing, extra, named twice, of another shape, not
            a floating-point number, or not finite.
    """
    try:
        with safe_open(path, framework="pt") as file:
            _refuse_repeated_names(path)
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
            _compare_shapes(found, expected, path)
            tensors = {name: file.get_tensor(name) for name in expected}
    except (OSError, ValueError, SafetensorError) as error:
        raise CheckpointError(
            f"the weights cannot be read: {error}", where=str(path), cure=COPY_AGAIN
        ) from None
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise CheckpointError(
                f"tensor {name} holds {tensor.dtype}, not fractions", where=str(path), cure=COPY_AGAIN
            )
        if not torch.isfinite(tensor).all():
            raise CheckpointError(
                f"tensor {name} holds numbers that are not finite", where=str(path), cure=COPY_AGAIN
            )
    return tensors


def read_metadata(path: Path) -> dict[str, str]:
    """The strings stored beside the tensors.

    Raises:
        CheckpointError: the file is damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"the weights cannot be read: {error}", where=str(path), cure=COPY_AGAIN
        ) from None


def _refuse_repeated_names(path: Path) -> None:
    """The library, which has found the header well formed, takes the last of equal names without a word."""
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        json.loads(stream.read(length), object_pairs_hook=_without_repeats)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name occurs twice")
    return table


def _compare_shapes(
    found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]], path: Path
) -> None:
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            raise CheckpointError(
                f"tensor {name}: the file has {found.get(name, 'none')}, "
                f"the configuration asks for {expected.get(name, 'none')}",
                where=str(path),
                cure=COPY_AGAIN,
            )
