"""Fixtures of runs that parity tests train."""

from __future__ import annotations

from tiny_runs import corpus, small_corpus

__all__ = ["corpus", "small_corpus"]
