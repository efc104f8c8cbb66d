"""A norm by the root mean square alone: nothing is centered, and there is no bias.

Later: Zhang & Sennrich 2019, "Root Mean Square Layer Normalization", arXiv:1910.07467
Silent: epsilon (added to the mean square, 1e-6 as LayerNorm's here).
"""

from __future__ import annotations

from torch import nn

from dragoman.model.residual import LAYER_NORM_EPSILON


def rms_norm(d_model: int, epsilon: float = LAYER_NORM_EPSILON) -> nn.RMSNorm:
    """x / sqrt(mean(x^2) + epsilon) * gain over the width; the gain begins at 1."""
    return nn.RMSNorm(d_model, eps=epsilon)
