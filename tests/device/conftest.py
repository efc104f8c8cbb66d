"""The smallest corpus, for a whole run on a device."""

from __future__ import annotations

from tiny_runs import small_corpus

__all__ = ["small_corpus"]
