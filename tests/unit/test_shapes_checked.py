"""The shapes in signatures are really checked while tests run: a wrong one is refused."""

from __future__ import annotations

import jaxtyping
import pytest
import torch
from random_models import CONFIGS, build

from dragoman.model.attention import attention_weights, split_heads
from dragoman.model.mask import padding_mask, segment_mask
from dragoman.search.length import penalty_table, score_bounds
from dragoman.training.loss import label_smoothed_loss

IDS = torch.tensor([[3, 4, 5]])


def search_with_a_limit_too_few():
    penalties = penalty_table(9, alpha=0.6, device=torch.device("cpu"))
    score_bounds(torch.zeros(2), length=1, limits=torch.tensor([5]), penalties=penalties, alpha=0.6)


WRONG = {
    "one dimension too few": lambda: padding_mask(IDS[0], 0),
    "numbers for ids": lambda: padding_mask(IDS.float(), 0),
    "batches of two sizes": lambda: segment_mask(IDS, IDS.expand(2, 3)),
    "two widths": lambda: attention_weights(torch.rand(1, 1, 2, 3), torch.rand(1, 1, 2, 4)),
    "one dimension too many": lambda: split_heads(torch.rand(1, 2, 2, 4), 2),
    "source and target of two batches": lambda: build(CONFIGS["paper"])(IDS, IDS.expand(2, 3)),
    "memory without a width": lambda: build(CONFIGS["paper"]).decode(IDS, torch.rand(1, 3)),
    "training": lambda: label_smoothed_loss(torch.rand(3, 4), torch.tensor([1, 2]), 0.1, pad_id=0),
    "search": search_with_a_limit_too_few,
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_a_wrong_shape_is_refused(call):
    with pytest.raises(jaxtyping.TypeCheckError):
        call()


def test_a_result_of_the_wrong_shape_is_refused_too(monkeypatch):
    model = build(CONFIGS["paper"])
    monkeypatch.setattr(model.encoder[-1], "forward", lambda x, mask: x[:, :1])
    with pytest.raises(jaxtyping.TypeCheckError, match="encode"):
        model.encode(IDS)
