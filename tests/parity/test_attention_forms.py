"""The forms of Eq. 1 (written out, fused, direct) agree in values and gradients under every kind of mask.

Paper: 3.2.1 (Eq. 1), Figure 2
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman import native
from dragoman.model import attention
from dragoman.model.attention import FUSED_FROM_KEYS, attend, attend_fused, attend_written_out
from dragoman.model.attention_direct import attend_direct
from dragoman.model.mask import causal_mask, padding_mask, segment_mask

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}
L = 6
SEGMENTS = torch.tensor([[1, 1, 2, 2, 2, 0], [1, 2, 2, 3, 0, 0]])
IDS = torch.tensor([[5, 6, 7, 8, 0, 0], [4, 0, 0, 0, 0, 0]])
MASKS = {
    "none": None,
    "padding": padding_mask(IDS, 0),
    "padding within": padding_mask(torch.tensor([[5, 0, 7, 8, 0, 2], [0, 0, 0, 0, 0, 3]]), 0),
    "causal": causal_mask(L),
    "causal and padding": causal_mask(L) & padding_mask(IDS, 0),
    "packed": segment_mask(SEGMENTS, SEGMENTS),
    "packed and causal": segment_mask(SEGMENTS, SEGMENTS) & causal_mask(L),
    "one sentence dead": padding_mask(torch.tensor([[5, 6, 7, 8, 0, 0], [0, 0, 0, 0, 0, 0]]), 0),
    "all dead": torch.zeros(2, 1, 1, L, dtype=torch.bool),
}


def inputs(dtype: torch.dtype, *, d_k: int, d_v: int, seed: int = 0, length: int = L) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = (d_k, d_k, d_v)
    drawn = [torch.randn(2, 3, length, d, generator=generator, dtype=torch.float64) for d in sizes]
    return [tensor.to(dtype).requires_grad_() for tensor in drawn]


def values_and_gradients(form, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None) -> list[Tensor]:
    output = form(Q, K, V, mask)
    # A weight for each number of the output, so that no gradient cancels.
    weight = torch.linspace(-1.0, 1.0, output.numel(), dtype=output.dtype).view_as(output)
    return [output.detach(), *torch.autograd.grad((output * weight).sum(), [Q, K, V])]


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(("d_k", "d_v"), [(8, 8), (4, 6)], ids=["d_k = d_v", "d_k != d_v"])
def test_values_and_gradients_agree(mask, dtype, d_k, d_v):
    tensors = inputs(dtype, d_k=d_k, d_v=d_v)
    exact = values_and_gradients(
        attend_written_out, *[t.detach().double().requires_grad_() for t in tensors], mask
    )
    for form in (attend_written_out, attend_fused, attend_direct):
        for got, want in zip(values_and_gradients(form, *tensors, mask), exact, strict=True):
            assert got.dtype == dtype
            torch.testing.assert_close(got.double(), want, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


@pytest.mark.parametrize("form", [attend_written_out, attend_fused, attend_direct, attend])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("kind", ["packed", "packed and causal", "one sentence dead", "all dead"])
def test_a_query_with_no_legal_key_gives_zeros_and_gets_no_gradient(form, dtype, kind):
    mask = MASKS[kind]
    dead = ~mask.any(dim=-1).expand(2, 1, L)[:, 0]
    assert dead.any()
    output, to_Q, to_K, to_V = values_and_gradients(form, *inputs(dtype, d_k=4, d_v=6), mask)
    for gradient in (to_Q, to_K, to_V):
        assert gradient.isfinite().all()
    for b in range(2):
        assert (output[b, :, dead[b]] == 0).all()
        assert (to_Q[b, :, dead[b]] == 0).all()
        assert (output[b, :, ~dead[b]] != 0).all()


@pytest.mark.parametrize("mask", [mask for mask in MASKS.values() if mask is not None], ids=[*MASKS][1:])
def test_no_kernel_is_asked_about_a_query_with_no_legal_key(monkeypatch, mask):
    """What kernels answer to that differs between devices and releases, so the question is never put."""
    asked = []
    kernel = F.scaled_dot_product_attention

    def noted(Q: Tensor, K: Tensor, V: Tensor, attn_mask: Tensor) -> Tensor:
        asked.append(attn_mask)
        return kernel(Q, K, V, attn_mask=attn_mask)

    monkeypatch.setattr(F, "scaled_dot_product_attention", noted)
    attend_fused(*inputs(torch.float32, d_k=4, d_v=4), mask)
    assert len(asked) == 1
    assert asked[0].any(dim=-1).all()


@pytest.mark.parametrize("form", [attend_written_out, attend_fused, attend_direct])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_illegal_keys_get_weight_zero_whatever_their_score(form, dtype):
    """Also where each legal score lies far below zero, where a mask of a merely large number would fail."""
    Q = torch.full((1, 1, 1, 1), 100.0, dtype=dtype)
    K = torch.tensor([-300.0, -300.0, 300.0], dtype=dtype).view(1, 1, 3, 1)
    V = torch.tensor([1.0, 3.0, 1000.0], dtype=dtype).view(1, 1, 3, 1)
    mask = torch.tensor([True, True, False]).view(1, 1, 1, 3)
    assert form(Q, K, V, mask).item() == 2.0


@settings(max_examples=40)
@given(
    rows=st.lists(st.lists(st.booleans(), min_size=L, max_size=L), min_size=L, max_size=L),
    seed=st.integers(0, 99),
)
def test_any_mask_at_all(rows, seed):
    mask = torch.tensor(rows)[None, None]
    tensors = inputs(torch.float64, d_k=4, d_v=6, seed=seed)
    one, *others = (
        values_and_gradients(form, *tensors, mask)
        for form in (attend_written_out, attend_fused, attend_direct)
    )
    for other in others:
        for got, want in zip(other, one, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("per_head", [False, True])
def test_masks_may_differ_between_heads_and_sentences(per_head):
    generator = torch.Generator().manual_seed(1)
    mask = torch.rand(2, 3 if per_head else 1, L, L, generator=generator) < 0.5
    tensors = inputs(torch.float64, d_k=4, d_v=4)
    for form in (attend_fused, attend_direct):
        torch.testing.assert_close(form(*tensors, mask), attend_written_out(*tensors, mask))
    alone = [attend_written_out(*[t[b : b + 1] for t in tensors], mask[b : b + 1]) for b in range(2)]
    torch.testing.assert_close(attend_written_out(*tensors, mask), torch.cat(alone))


@pytest.mark.parametrize(
    ("keys", "wants_gradient", "form"),
    [
        (FUSED_FROM_KEYS - 1, False, "attend_written_out"),
        (FUSED_FROM_KEYS - 1, True, "attend_native" if native.kernels() else "attend_direct"),
        (FUSED_FROM_KEYS, False, "attend_fused"),
        (FUSED_FROM_KEYS, True, "attend_fused"),
    ],
)
def test_the_form_is_chosen_by_the_number_of_keys_and_whether_a_gradient_is_wanted(
    monkeypatch, keys, wants_gradient, form
):
    used = []
    for name in ("attend_fused", "attend_written_out", "attend_direct", "attend_native"):
        original = getattr(attention, name)
        monkeypatch.setattr(attention, name, lambda *a, n=name, f=original: (used.append(n), f(*a))[1])
    tensors = inputs(torch.float32, d_k=4, d_v=4, length=keys)
    with torch.set_grad_enabled(wants_gradient):
        attend(*tensors, causal_mask(keys))
    assert used == [form]


def test_without_the_kernels_and_in_float64_training_is_by_the_direct_form(monkeypatch):
    used = []
    monkeypatch.setattr(
        attention, "attend_direct", lambda *a: (used.append(a[0].dtype), attend_direct(*a))[1]
    )
    attend(*inputs(torch.float64, d_k=4, d_v=4), causal_mask(L))
    monkeypatch.setattr(attention, "kernels_for", lambda _x: None)
    attend(*inputs(torch.float32, d_k=4, d_v=4), causal_mask(L))
    assert used == [torch.float64, torch.float32]


def test_the_direct_gradient_is_the_numerical_one():
    mask = MASKS["packed and causal"]
    tensors = [t.detach()[:, :2].requires_grad_() for t in inputs(torch.float64, d_k=3, d_v=2)]
    assert torch.autograd.gradcheck(lambda *QKV: attend_direct(*QKV, mask), tensors)


def test_the_direct_form_takes_heads_that_lie_apart_in_memory():
    """As `split_heads` gives them: slices of a wider tensor, transposed."""
    wide = torch.randn(2, L, 3 * 12, dtype=torch.float64)
    heads = [part.view(2, L, 3, 4).transpose(1, 2).requires_grad_() for part in wide.split(12, dim=-1)]
    mask = MASKS["causal and padding"]
    one, other = (values_and_gradients(form, *heads, mask) for form in (attend_written_out, attend_direct))
    for got, want in zip(other, one, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def test_both_forms_agree_at_the_length_where_the_choice_changes():
    tensors = inputs(torch.float32, d_k=4, d_v=4, length=FUSED_FROM_KEYS)
    mask = causal_mask(FUSED_FROM_KEYS)
    one, other = (values_and_gradients(form, *tensors, mask) for form in (attend_written_out, attend_fused))
    for got, want in zip(one, other, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
