"""One tiny corpus and one tiny trained model for all tests of the command line."""

from __future__ import annotations

from command_line import lab

__all__ = ["lab"]
