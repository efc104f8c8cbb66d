"""One tiny corpus and one tiny trained model for the tests of the published cases."""

from __future__ import annotations

import pytest
from command_line import Lab, make_lab
from tiny_runs import quick_disk

__all__ = ["lab", "quick_disk"]


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Shared: no test writes into it."""
    return make_lab(tmp_path_factory.mktemp("lab"))
