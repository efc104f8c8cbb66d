"""Some steps of the model in C++: compiled for this processor when they are first needed, used where that worked.

Paper: none (infrastructure)

The sources beside this file are compiled with the compiler of the system (a quarter of a minute) into the user's cache,
once for each processor and version. Where there is no compiler, or DRAGOMAN_NATIVE is 0, `kernels()` is None and PyTorch
does the same steps. Each kernel has its equivalent in PyTorch and a test that holds them together.
"""

from __future__ import annotations

from dragoman.native.build import will_compile
from dragoman.native.library import Dropped, Kernels, Sentences, check_below, kernels, kernels_for

__all__ = ["Dropped", "Kernels", "Sentences", "check_below", "kernels", "kernels_for", "will_compile"]
