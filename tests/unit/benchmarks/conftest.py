"""The measurements are scripts beside the package: their folder is made importable."""

from __future__ import annotations

import sys
from pathlib import Path

from tiny_runs import corpus, quick_runs

__all__ = ["corpus", "quick_runs"]

# Last, since the tests' own modules may have the names of scripts.
sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
