"""A limit on outputs that is a multiple of the source's length, or one for all.

Later: Ott et al. 2019 (fairseq, max_len_a and max_len_b), arXiv:1904.01038
Silent: whether end marks count (they do, on both sides, as in the paper's limit here); fractions are dropped.
"""

from __future__ import annotations


def longest_output(source_length: int, times: float, plus: int) -> int:
    """N = times * S + plus, at least 1."""
    return max(1, int(times * source_length) + plus)
