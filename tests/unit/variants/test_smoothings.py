"""Other ways of spreading eps_ls: as PyTorch's loss and as the Annotated Transformer's, in every form of ours.

Paper: 5.4
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from random_models import CONFIGS, build
from tiny_runs import make_task, tiny_recipe
from torch import Tensor

from dragoman import native
from dragoman.data.batches import Cursor
from dragoman.training import explicit
from dragoman.training.loss import label_smoothed_loss, output_loss, over_the_others
from dragoman.training.step import optimizer_for, update
from dragoman.variants.smoothing_over_all import over_all
from dragoman.variants.smoothing_without_padding import without_padding

PAD = 0
SPREADS = [over_the_others, over_all, without_padding]


def of_pytorch(logits: Tensor, targets: Tensor, eps_ls: float) -> Tensor:
    return F.cross_entropy(logits, targets, ignore_index=PAD, label_smoothing=eps_ls, reduction="sum")


def of_distributions(logits: Tensor, targets: Tensor, eps_ls: float) -> Tensor:
    """Cross-entropy with q written out as the Annotated Transformer and joeynmt make it."""
    V = logits.shape[1]
    q = torch.full_like(logits, eps_ls / (V - 2))
    q.scatter_(1, targets[:, None], 1.0 - eps_ls)
    q[:, PAD] = 0.0
    q[targets == PAD] = 0.0
    return -(q * logits.log_softmax(dim=-1)).sum()


@settings(max_examples=40)
@given(
    n=st.integers(1, 30),
    V=st.integers(3, 25),
    eps_ls=st.sampled_from([0.0, 0.1, 0.4]),
    seed=st.integers(0, 2**20),
)
@pytest.mark.parametrize(
    ("spread", "theirs"),
    [(over_all, of_pytorch), (without_padding, of_distributions)],
    ids=["all", "padding"],
)
def test_loss_and_gradients_are_those_of_others_in_both_forms(spread, theirs, n, V, eps_ls, seed):
    draw = torch.Generator().manual_seed(seed)
    hidden, weight = (torch.randn(rows, 6, generator=draw).double().requires_grad_() for rows in (n, V))
    targets = torch.randint(1, V, (n,), generator=draw)
    targets[torch.rand(n, generator=draw) < 0.2] = PAD
    want = theirs(hidden @ weight.T, targets, eps_ls)
    wanted = torch.autograd.grad(want, [hidden, weight])
    forms = (
        label_smoothed_loss(hidden @ weight.T, targets, eps_ls, pad_id=PAD, spread=spread),
        output_loss(hidden[None], weight, targets[None], eps_ls, pad_id=PAD, spread=spread),
    )
    for got in forms:
        torch.testing.assert_close(got.smoothed, want, rtol=1e-9, atol=1e-9)
        gradients = torch.autograd.grad(got.smoothed, [hidden, weight])
        torch.testing.assert_close(gradients, wanted, rtol=1e-8, atol=1e-10)
    with torch.no_grad():
        silent = output_loss(hidden[None], weight, targets[None], eps_ls, pad_id=PAD, spread=spread)
    torch.testing.assert_close(silent.smoothed, want, rtol=1e-9, atol=1e-9)


@given(
    eps_ls=st.floats(0.0, 0.99),
    V=st.integers(3, 50_000),
    spread=st.sampled_from(SPREADS),
    seed=st.integers(0, 99),
)
def test_shares_are_a_distribution(eps_ls, V, spread, seed):
    true, other, padding = spread(eps_ls, V)
    assert true + (V - 2) * other + padding == pytest.approx(1.0, abs=1e-9)
    assert min(true, other, padding) >= 0.0


@pytest.mark.parametrize("spread", SPREADS)
def test_columns_that_are_masked_do_not_count(spread):
    logits, targets = torch.randn(4, 9, dtype=torch.float64), torch.tensor([3, 4, 5, 1])
    masked = torch.cat([logits, torch.full((4, 2), -torch.inf, dtype=torch.float64)], dim=1)
    few, many = (
        label_smoothed_loss(some, targets, 0.1, pad_id=PAD, spread=spread).smoothed
        for some in (logits, masked)
    )
    torch.testing.assert_close(many, few, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(native.kernels() is None, reason="no kernels here")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["over_all", "without_padding"])
def test_the_gradient_that_is_written_out_is_autograds(name, precision, small_corpus, tmp_path, monkeypatch):
    recipe = tiny_recipe(
        f"departures.training=smoothing_{name}", f"training.precision={precision}", "model.P_drop=0.0"
    )
    weights = []
    for by_hand in (True, False):
        task = make_task(small_corpus, tmp_path, recipe)
        model = task.facts.build(1)
        optimizer = optimizer_for(model, recipe)
        assert explicit.serves(model) is not None
        with monkeypatch.context() as patch:
            if not by_hand:
                patch.setattr(explicit, "serves", lambda _model: None)
            batch, _ = next(task.loader.batches(Cursor()))
            done = update(model, optimizer, batch, recipe, 1)
        weights.append((done.loss, optimizer.gathered().float().clone()))
    tolerance = 1e-4 if precision == "fp32" else 0.03
    assert weights[0][0] == pytest.approx(weights[1][0], rel=tolerance)
    largest = float(weights[1][1].abs().max())
    torch.testing.assert_close(weights[0][1], weights[1][1], rtol=0.0, atol=tolerance * largest)


@torch.no_grad()
def test_a_model_of_ours_is_another_by_each():
    model = build(CONFIGS["tiny"] if "tiny" in CONFIGS else next(iter(CONFIGS.values())))
    ids = torch.tensor([[4, 5, 6, 1]])
    losses = {
        spread.__name__: float(
            output_loss(
                model.hidden(ids, ids), model.output_weight, ids, 0.1, pad_id=PAD, spread=spread
            ).smoothed
        )
        for spread in SPREADS
    }
    assert len(set(losses.values())) == 3
