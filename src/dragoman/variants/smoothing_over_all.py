"""Label smoothing whose mass is spread over all classes, the true one too.

Later: Szegedy et al. 2016, arXiv:1512.00567 (and so torch.nn.CrossEntropyLoss, Marian and the earlier fairseq)
"""

from __future__ import annotations


def over_all(eps_ls: float, V: int) -> tuple[float, float, float]:
    """Shares of the true class, of each other class, and of padding where it is not the true one."""
    each = eps_ls / V
    return 1.0 - eps_ls + each, each, each
