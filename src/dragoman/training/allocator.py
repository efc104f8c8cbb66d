"""Asks glibc's malloc to keep big blocks instead of returning them to the system after each use.

Paper: none (infrastructure)
A training step frees and takes the same big tensors again and again; fetching fresh pages each time costs
about a quarter of the time of a step on a CPU. Elsewhere than on glibc nothing is done. The setting is of the
whole process.
"""

from __future__ import annotations

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_KEEP = 1 << 30


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
