"""One tiny corpus and one tiny trained model for all tests of the command line."""

from __future__ import annotations

import pytest
from command_line import lab

from dragoman import native

__all__ = ["lab"]


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """What verbs say of compiling kernels the first time would be said in whichever test is the first."""
    native.kernels()
