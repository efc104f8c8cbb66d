"""One tiny corpus and one tiny trained model for all tests of the command line."""

from __future__ import annotations

import pytest
from command_line import Lab, make_lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Shared: no test writes into it."""
    return make_lab(tmp_path_factory.mktemp("lab"))
