"""The smallest corpus, for the tests that train."""

from __future__ import annotations

from tiny_runs import corpus, quick_disk, small_corpus

__all__ = ["corpus", "quick_disk", "small_corpus"]
