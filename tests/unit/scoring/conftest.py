"""Real text for the scorers' tests, found through DRAGOMAN_DATA."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

ReadUnits = Callable[[str], list[str]]


@pytest.fixture
def wmt() -> ReadUnits:
    """Read a file of wmt/ into units: a unit ends at LF, and at nothing else."""
    directory = os.environ.get("DRAGOMAN_DATA")
    if not directory:
        pytest.skip("DRAGOMAN_DATA is not set: no WMT text to score")
    root = Path(directory) / "wmt"
    if not root.is_dir():
        pytest.skip(f"{root} is missing: no WMT text to score")

    def read(name: str) -> list[str]:
        text = gzip.decompress((root / name).read_bytes()).decode("utf-8")
        return text.removesuffix("\n").split("\n")

    return read
