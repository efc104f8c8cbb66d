"""One tiny corpus and one tiny trained model for the tests of the published cases."""

from __future__ import annotations

from command_line import lab
from tiny_runs import quick_runs

__all__ = ["lab", "quick_runs"]
