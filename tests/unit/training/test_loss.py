"""Both forms of the loss, against each other, PyTorch's and worked examples.

Paper: 3.4, 5.4
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman.training import loss as loss_module
from dragoman.training.loss import label_smoothed_loss, output_loss

PAD = 0
INF = float("inf")


def random_case(
    n: int, V: int, *, seed: int, dtype: torch.dtype = torch.float64, d: int = 6
) -> tuple[Tensor, Tensor, Tensor]:
    """hidden (1, n, d), weight (V, d) and targets (1, n), about a fifth of them padding."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(1, n, d, generator=generator, dtype=torch.float64).to(dtype)
    weight = torch.randn(V, d, generator=generator, dtype=torch.float64).to(dtype)
    targets = torch.randint(1, V, (1, n), generator=generator)
    targets[torch.rand(1, n, generator=generator) < 0.2] = PAD
    return hidden.requires_grad_(), weight.requires_grad_(), targets


def written_out(hidden: Tensor, weight: Tensor, targets: Tensor, eps_ls: float) -> loss_module.LossSum:
    return label_smoothed_loss((hidden @ weight.T)[0], targets[0], eps_ls, pad_id=PAD)


def torch_loss(logits: Tensor, targets: Tensor, eps_ls: float) -> Tensor:
    """PyTorch spreads eps over all V classes, the true one too: eps V / (V - 1) leaves it 1 - our eps."""
    V = logits.shape[-1]
    smoothing = eps_ls * V / (V - 1)
    return F.cross_entropy(logits, targets, ignore_index=PAD, label_smoothing=smoothing, reduction="sum")


@settings(max_examples=30)
@given(
    n=st.integers(1, 40),
    V=st.integers(2, 30),
    eps_ls=st.sampled_from([0.0, 0.1, 0.4]),
    rows=st.sampled_from([1, 2, 7, 512]),
    seed=st.integers(0, 2**20),
)
def test_both_forms_and_torch_agree(n, V, eps_ls, rows, seed):
    results = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss_module, "BLOCK_BYTES", rows * V * 8)
        for form in ("written out", "joined", "torch"):
            hidden, weight, targets = random_case(n, V, seed=seed)
            if form == "written out":
                value = written_out(hidden, weight, targets, eps_ls).smoothed
            elif form == "joined":
                value = output_loss(hidden, weight, targets, eps_ls, pad_id=PAD).smoothed
            else:
                value = torch_loss((hidden @ weight.T)[0], targets[0], eps_ls)
            value.backward()
            results.append((value.detach(), hidden.grad, weight.grad))
    for other in results[1:]:
        for ours, theirs in zip(results[0], other, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_true_token_of_no_probability_has_a_finite_loss(dtype):
    """Its p underflows: the loss is the difference of the logits all the same."""
    hidden = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], dtype=dtype, requires_grad=True)
    weight = torch.tensor([[0.0, 0.0], [512.0, 0.0], [0.0, 2.0]], dtype=dtype, requires_grad=True)
    loss = output_loss(hidden, weight, torch.tensor([[2, 2]]), 0.0, pad_id=PAD)
    loss.smoothed.backward()
    assert loss.nll.item() == pytest.approx(512.0 + math.log(2 + math.exp(2)) - 2, rel=1e-6)
    assert hidden.grad.isfinite().all()
    assert hidden.grad[0, 0].tolist() == [512.0, -2.0]


def test_the_joined_gradient_is_the_numerical_one():
    hidden, weight, targets = random_case(5, 4, seed=3, d=3)

    def value(h: Tensor, w: Tensor) -> Tensor:
        return output_loss(h, w, targets, 0.1, pad_id=PAD).smoothed * 2.5

    assert torch.autograd.gradcheck(value, (hidden, weight))


def test_smoothing_by_hand():
    """q = (0.9, 0.05, 0.05): the true class keeps 1 - eps, each other gets eps / (V - 1)."""
    p = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    expected = -(0.9 * math.log(0.3) + 0.05 * math.log(0.5) + 0.05 * math.log(0.2))
    loss = label_smoothed_loss(p.log(), torch.tensor([1]), 0.1, pad_id=PAD)
    assert loss.smoothed.item() == pytest.approx(expected, rel=1e-12)
    assert loss.nll.item() == pytest.approx(-math.log(0.3), rel=1e-12)
    assert loss.tokens == 1


def test_the_least_possible_loss_is_the_entropy_of_the_smoothed_target():
    V, eps_ls = 5, 0.1
    q = torch.full((1, V), eps_ls / (V - 1), dtype=torch.float64)
    q[0, 2] = 1 - eps_ls
    logits = q.log().requires_grad_()
    loss = label_smoothed_loss(logits, torch.tensor([2]), eps_ls, pad_id=PAD).smoothed
    loss.backward()
    assert loss.item() == pytest.approx(-(q * q.log()).sum().item(), rel=1e-12)
    torch.testing.assert_close(logits.grad, torch.zeros_like(logits), rtol=0, atol=1e-12)


@pytest.mark.parametrize("eps_ls", [0.0, 0.1])
@pytest.mark.parametrize("masked", [[0], [0, 1], [0, 1, 4]])
def test_masked_columns_get_no_mass_and_no_gradient(eps_ls, masked):
    """B23: as if the vocabulary did not have them."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(6, 7, generator=generator, dtype=torch.float64)
    legal = [column for column in range(7) if column not in masked]
    targets = torch.tensor(legal)[torch.randint(len(legal), (6,), generator=generator)]
    with_mask = logits.clone()
    with_mask[:, masked] = -INF
    with_mask.requires_grad_()
    loss = label_smoothed_loss(with_mask, targets, eps_ls, pad_id=PAD)
    loss.smoothed.backward()
    small = logits[:, legal].clone().requires_grad_()
    places = torch.tensor([legal.index(t) for t in targets.tolist()])
    expected = label_smoothed_loss(small, places, eps_ls, pad_id=-1)
    expected.smoothed.backward()
    torch.testing.assert_close(loss.smoothed, expected.smoothed, rtol=1e-12, atol=0)
    assert torch.equal(with_mask.grad[:, masked], torch.zeros(6, len(masked), dtype=torch.float64))
    torch.testing.assert_close(with_mask.grad[:, legal], small.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("eps_ls", [0.0, 0.1])
def test_fifty_thousand_equal_logits_cost_ln_V(dtype, eps_ls):
    """B22: a sum over the vocabulary in half precision would be infinite."""
    V = 50_000
    logits = torch.zeros(2, V, dtype=dtype, requires_grad=True)
    loss = label_smoothed_loss(logits, torch.tensor([7, V - 1]), eps_ls, pad_id=PAD)
    loss.smoothed.backward()
    assert loss.smoothed.item() / 2 == pytest.approx(math.log(V), abs=1e-3)
    assert torch.isfinite(logits.grad).all()
    hidden = torch.zeros(1, 2, 4, dtype=dtype, requires_grad=True)
    weight = torch.ones(V, 4, dtype=dtype, requires_grad=True)
    joined = output_loss(hidden, weight, torch.tensor([[7, V - 1]]), eps_ls, pad_id=PAD)
    joined.smoothed.backward()
    assert joined.smoothed.dtype == torch.float32
    assert joined.smoothed.item() / 2 == pytest.approx(math.log(V), abs=1e-3)
    assert torch.isfinite(hidden.grad).all()
    assert torch.isfinite(weight.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bit_is_near_float32(dtype):
    hidden, weight, targets = random_case(30, 20, seed=5, dtype=dtype)
    low = output_loss(hidden, weight, targets, 0.1, pad_id=PAD)
    high = output_loss(hidden.detach().float(), weight.detach().float(), targets, 0.1, pad_id=PAD)
    low.smoothed.backward()
    assert hidden.grad is not None
    assert hidden.grad.dtype == weight.grad.dtype == dtype
    assert low.smoothed.item() == pytest.approx(high.smoothed.item(), rel=0.02)


def test_padding_contributes_nothing():
    hidden, weight, targets = random_case(12, 9, seed=2)
    targets[0, :4], targets[0, 4:] = PAD, targets[0, 4:].clamp(min=1)
    whole = output_loss(hidden, weight, targets, 0.1, pad_id=PAD)
    whole.smoothed.backward()
    rest = output_loss(hidden[:, 4:], weight, targets[:, 4:], 0.1, pad_id=PAD)
    assert whole.tokens == rest.tokens == 8
    torch.testing.assert_close(whole.smoothed, rest.smoothed, rtol=1e-12, atol=0)
    torch.testing.assert_close(whole.nll, rest.nll, rtol=1e-12, atol=0)
    assert torch.equal(hidden.grad[0, :4], torch.zeros(4, 6, dtype=torch.float64))


def test_nothing_but_padding_is_zero_and_finite():
    """I10."""
    hidden, weight, targets = random_case(4, 5, seed=2)
    loss = output_loss(hidden, weight, torch.zeros_like(targets), 0.1, pad_id=PAD)
    loss.smoothed.backward()
    assert (loss.smoothed.item(), loss.nll.item(), loss.tokens) == (0.0, 0.0, 0)
    assert not hidden.grad.any()
    assert not weight.grad.any()
    logits = torch.randn(4, 5, requires_grad=True)
    written = label_smoothed_loss(logits, torch.zeros(4, dtype=torch.int64), 0.1, pad_id=PAD)
    written.smoothed.backward()
    assert written.smoothed.item() == 0.0
    assert not logits.grad.any()


def test_sums_are_over_tokens_whatever_the_shape():
    """Divided by their number they are the mean over tokens, not over sentences."""
    hidden, weight, targets = random_case(12, 9, seed=4)
    targets.clamp_(min=1)
    whole = output_loss(hidden, weight, targets, 0.1, pad_id=PAD)
    square = output_loss(hidden.view(3, 4, -1), weight, targets.view(3, 4), 0.1, pad_id=PAD)
    parts = [
        output_loss(hidden[:, cut], weight, targets[:, cut], 0.1, pad_id=PAD)
        for cut in (slice(0, 1), slice(1, 12))
    ]
    assert square.smoothed.item() == pytest.approx(whole.smoothed.item(), rel=1e-12)
    assert sum(part.smoothed.item() for part in parts) == pytest.approx(whole.smoothed.item(), rel=1e-12)
    assert whole.tokens == square.tokens == sum(part.tokens for part in parts) == 12


def test_nll_is_what_eps_zero_gives_and_carries_no_gradient():
    hidden, weight, targets = random_case(10, 8, seed=6)
    smoothed = output_loss(hidden, weight, targets, 0.3, pad_id=PAD)
    plain = output_loss(hidden, weight, targets, 0.0, pad_id=PAD)
    torch.testing.assert_close(smoothed.nll, plain.smoothed.detach(), rtol=1e-12, atol=0)
    assert not smoothed.nll.requires_grad
    assert not written_out(hidden, weight, targets, 0.3).nll.requires_grad


@pytest.mark.parametrize("huge", [1e4, 1e30])
def test_huge_logits_stay_finite(huge):
    logits = torch.tensor([[huge, 0.0, -huge]], requires_grad=True)
    loss = label_smoothed_loss(logits, torch.tensor([2]), 0.1, pad_id=PAD)
    loss.smoothed.backward()
    assert math.isfinite(loss.smoothed.item())
    assert torch.isfinite(logits.grad).all()
    hidden = torch.tensor([[[huge]]], requires_grad=True)
    weight = torch.tensor([[1.0], [0.0], [-1.0]], requires_grad=True)
    joined = output_loss(hidden, weight, torch.tensor([[2]]), 0.1, pad_id=PAD).smoothed
    joined.backward()
    assert joined.item() == pytest.approx(loss.smoothed.item(), rel=1e-6)
    assert torch.isfinite(hidden.grad).all()


def test_without_gradients_none_are_computed(monkeypatch):
    """Validation must not pay for what it does not use."""
    hidden, weight, targets = random_case(10, 8, seed=7)
    expected = output_loss(hidden, weight, targets, 0.1, pad_id=PAD)
    monkeypatch.setattr(torch, "mm", lambda *_args, **_options: pytest.fail("a gradient was computed"))
    with torch.no_grad():
        loss = output_loss(hidden, weight, targets, 0.1, pad_id=PAD)
    assert not loss.smoothed.requires_grad
    assert loss.smoothed.item() == pytest.approx(expected.smoothed.item(), rel=1e-12)


# Masked logits and what they cost, worked out with the decimal module from the definition:
# mean over the targets that are not padding of (1 - eps) nll + eps mean over unmasked columns of -log p.
SMALL_CASE = {
    "eps": 0.1,
    "logits": [[0.25, -1.5, 2.0, 0.5], [-0.75, 1.0, 0.125, -0.25], [3.0, -2.0, 0.0, 1.5]],
    "targets": [2, 3, 0],
    "masks": {"no_mask": [], "pad_column_masked": [0], "two_columns_masked": [0, 1]},
}


def over_all_columns(eps: float, columns: int) -> float:
    """Our eps for a smoothing that is spread over all unmasked columns, the true one too."""
    return eps * (columns - 1) / columns


def by_definition(case: dict, masked: list[int]) -> float:
    total, count = 0.0, 0
    for logits, target in zip(case["logits"], case["targets"], strict=True):
        if target == PAD:
            continue
        kept = [x for column, x in enumerate(logits) if column not in masked]
        log_Z = math.log(math.fsum(map(math.exp, kept)))
        mean = math.fsum(log_Z - x for x in kept) / len(kept)
        total += (1 - case["eps"]) * (log_Z - logits[target]) + case["eps"] * mean
        count += 1
    return total / count


def measured(case: dict, masked: list[int], eps: float, dtype: torch.dtype) -> float:
    logits = torch.tensor(case["logits"], dtype=dtype)
    logits[:, masked] = -INF
    logits.requires_grad_()
    eps_ls = over_all_columns(eps, logits.shape[1] - len(masked))
    loss = label_smoothed_loss(logits, torch.tensor(case["targets"]), eps_ls, pad_id=PAD)
    loss.smoothed.backward()
    assert torch.isfinite(logits.grad).all()
    assert not logits.grad[:, masked].any()
    return loss.smoothed.item() / loss.tokens


@pytest.mark.parametrize("name", SMALL_CASE["masks"])
def test_a_case_with_masks_by_definition(name):
    masked = SMALL_CASE["masks"][name]
    expected = by_definition(SMALL_CASE, masked)
    assert measured(SMALL_CASE, masked, 0.1, torch.float32) == pytest.approx(expected, abs=1e-6)


def case_08() -> Path:
    named = os.environ.get("DRAGOMAN_CASES")
    root = Path(named) if named else Path(__file__).parents[4] / "shared" / "cases"
    folder = root / "08-label-smoothing-masked"
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing (DRAGOMAN_CASES names the folder of cases)")
    return folder


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_case_08(dtype):
    folder = case_08()
    case = json.loads((folder / "logits.json").read_text(encoding="utf-8"))
    expected = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    tolerance = {"abs": 1e-5} if dtype == torch.float32 else {"rel": 2e-2}
    cases = {
        "no_mask": ([], 0.1),
        "pad_column_masked": ([0], 0.1),
        "two_columns_masked": ([0, 1], 0.1),
        "eps_zero_pad_masked": ([0], 0.0),
    }
    for name, (masked, eps) in cases.items():
        assert measured(case, masked, eps, dtype) == pytest.approx(expected[name], **tolerance), name
