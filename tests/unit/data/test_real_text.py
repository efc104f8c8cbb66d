"""Real captions through preparing and batching; needs DRAGOMAN_DATA."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np

from dragoman.data.batches import BatchLoader, BatchPlan
from dragoman.data.prepare import prepare
from dragoman.text.lines import read_units


def test_captions_come_back_and_batches_hold_little_padding(data_root: Path, tmp_path: Path) -> None:
    files = [data_root / "multi30k" / "raw" / f"val.{language}.gz" for language in ("en", "de")]
    corpus = prepare(*files, out=tmp_path / "out", vocab_size=2_000)
    english = list(read_units(files[0]))
    for k in range(len(corpus.train)):
        text = corpus.source_subwords.decode(corpus.train.source(k).tolist())
        assert text == english[int(corpus.train.line_numbers[k]) - 1]
    assert (corpus.source_language, corpus.target_language) == ("en", "de")

    plan = BatchPlan.of(corpus.train, source_tokens=1_024, target_tokens=1_024, seed=1)
    batches = [batch for batch, _ in islice(BatchLoader(corpus.train, plan).batches(), len(plan))]
    seen = np.concatenate([batch.pair_indices.numpy() for batch in batches])
    cells = sum(batch.source_ids.numel() + batch.target_output_ids.numel() for batch in batches)
    tokens = sum(batch.source_tokens + batch.target_tokens for batch in batches)
    assert sorted(seen.tolist()) == list(range(len(corpus.train)))
    assert 1 - tokens / cells < 0.16  # most of it from columns rounded up to a multiple of LENGTH_MULTIPLE
