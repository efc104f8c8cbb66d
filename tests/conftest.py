"""What all tests share: shapes checked as annotated, fixed threads, where the real text lies.

Tests that take long are marked `@pytest.mark.slow`: `make test` leaves them out, `make test-slow` runs them.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import hypothesis
import jaxtyping
import pytest

# Must come before the first import of these packages: from here on every call into them checks the shapes
# and types in its annotations. text/ and data/ have no tensors in their signatures to speak of.
CHECKED = ("dragoman.model", "dragoman.search", "dragoman.training")
jaxtyping.install_import_hook(list(CHECKED), "beartype.beartype")

# What runs in the background (nohup, cron) is started with these signals ignored, and would hand that on to the commands
# that tests start and signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Modules that tests share (`from paper import reference`, `import random_models`): tests are no package.
sys.path.insert(0, str(Path(__file__).parent))

hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one switch that writes the golden files anew."""
    parser.addoption(
        "--update-golden", action="store_true", help="write tests/golden anew instead of comparing"
    )


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: no run's collection of garbage goes through them again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """Sums depend on the number of threads in their last bits: one thread, where torch is in use at all."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != 1:
        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of real text, named by the environment alone."""
    named = os.environ.get("DRAGOMAN_DATA")
    if not named:
        pytest.skip("DRAGOMAN_DATA is not set: no real text to test with")
    root = Path(named)
    if not root.is_dir():
        pytest.skip(f"DRAGOMAN_DATA names {named}, which is not a folder")
    return root.resolve()
