"""The smallest corpus and models, shared by the tests of training and of what uses it."""

from __future__ import annotations

from tiny_runs import bundle_maker, corpus, quick_runs, separate_corpus, small_corpus

__all__ = ["bundle_maker", "corpus", "quick_runs", "separate_corpus", "small_corpus"]
