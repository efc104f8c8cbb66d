"""The whole model equals Hugging Face's Marian, weights copied and its additions to the paper set to nothing.

Paper: 3, Figure 1

The copy is made by `benchmarks/twins.py`, which measures speed with it too.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from random_models import build, random_ids
from torch import Tensor

from dragoman.model.config import ModelConfig

pytest.importorskip("transformers", reason="transformers is not installed (extra: interop)")
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from twins import marian_twin

CONFIG = ModelConfig(vocab_size=19, N=2, d_model=16, d_ff=20, h=4, P_drop=0.0)
TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-9}


def batch() -> tuple[Tensor, Tensor]:
    return random_ids(19, [6, 3, 1], seed=1), random_ids(19, [4, 5, 2], seed=2)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_logits_equal_marians(dtype):
    model = build(CONFIG, dtype=dtype)
    source_ids, target_ids = batch()
    twin = marian_twin(model, longest=64)
    assert twin.lm_head.weight is twin.model.shared.weight
    with torch.no_grad():
        want = twin(input_ids=source_ids, attention_mask=source_ids != 0, decoder_input_ids=target_ids).logits
        got = model(source_ids, target_ids)
    real = target_ids != 0
    assert got[real].std() > 0.5
    torch.testing.assert_close(got[real], want[real], rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


def test_the_order_of_the_width_matters_where_it_is_not_followed():
    """A guard on this test itself: with the matrix of embeddings left as it was, the logits differ."""
    model = build(CONFIG)
    source_ids, target_ids = batch()
    twin = marian_twin(model, longest=64)
    with torch.no_grad():
        twin.model.shared.weight.copy_(model.target_embedding.weight)
        want = twin(input_ids=source_ids, attention_mask=source_ids != 0, decoder_input_ids=target_ids).logits
        assert (model(source_ids, target_ids) - want).abs().max() > 1e-2
