"""The smallest corpus, for the tests that train."""

from __future__ import annotations

from tiny_runs import corpus, one_text, quick_runs, small_corpus

__all__ = ["corpus", "one_text", "quick_runs", "small_corpus"]
