"""Gradients that are cut to a norm, beside PyTorch's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_runs import make_task, tiny_recipe

from dragoman.data.batches import Cursor
from dragoman.training.step import optimizer_for, update


def gradient_of(corpus, folder, *changes: str) -> tuple[torch.Tensor, float]:
    recipe = tiny_recipe("model.P_drop=0.0", *changes)
    task = make_task(corpus, folder, recipe)
    model = task.facts.build(1)
    optimizer = optimizer_for(model, recipe)
    done = update(model, optimizer, next(task.loader.batches(Cursor()))[0], recipe, 1)
    return optimizer.gathered().clone(), done.gradient_norm


@settings(max_examples=8)
@given(share=st.floats(0.1, 2.0))
@pytest.mark.parametrize("pieces", [100, 30])
def test_it_is_pytorchs_and_the_norm_that_is_told_is_the_one_before(
    share, pieces, small_corpus, tmp_path_factory
):
    folder, cut = tmp_path_factory.mktemp("clipping"), f"batch.tokens_at_once={pieces}"
    whole, norm = gradient_of(small_corpus, folder, cut)
    longest = share * norm
    asked = f'departures.training={{name = "clipping", norm = {longest!r}}}'
    clipped, told = gradient_of(small_corpus, folder, cut, asked)
    parameter = torch.nn.Parameter(torch.zeros_like(whole))
    parameter.grad = whole.clone()
    torch.nn.utils.clip_grad_norm_([parameter], longest)
    torch.testing.assert_close(clipped, parameter.grad, rtol=1e-5, atol=1e-9)
    assert told == pytest.approx(norm, rel=1e-6)
    assert float(clipped.norm()) == pytest.approx(min(norm, longest), rel=1e-4)
