"""Asks the process to keep what a training step uses again and again: memory, and compiled kernels.

Paper: none (infrastructure)
A training step frees and takes the same big tensors again and again; fetching fresh pages from the system each time
costs about a quarter of the time of a step on a CPU. oneDNN makes a kernel for each shape it meets and keeps 1,024 of
them unless told otherwise, fewer than an epoch of batches needs: about a sixth of the time. Both settings are of the
whole process.
"""

from __future__ import annotations

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_KEEP = 1 << 30


def tune_process() -> None:
    """Both, for the process; results are the same. To be called before the first product of matrices.

    Variables that the user has set are left alone.
    """
    keep_big_blocks()
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32768")


def keep_big_blocks() -> bool:
    """Sets the thresholds unless the user has set malloc's own variables; whether it did."""
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    settings = {_M_MMAP_THRESHOLD: _KEEP, _M_TRIM_THRESHOLD: _KEEP, _M_TOP_PAD: 64 << 20}
    done = [mallopt(name, value) == 1 for name, value in settings.items()]
    return all(done)
