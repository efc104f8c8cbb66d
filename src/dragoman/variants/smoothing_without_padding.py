"""Label smoothing whose mass goes neither to the true class nor to padding.

Later: Rush 2018, "The Annotated Transformer", Workshop for NLP Open Source Software (and so joeynmt)
"""

from __future__ import annotations


def without_padding(eps_ls: float, V: int) -> tuple[float, float, float]:
    """Shares of the true class, of each other class, and of padding where it is not the true one."""
    return 1.0 - eps_ls, eps_ls / max(V - 2, 1), 0.0
