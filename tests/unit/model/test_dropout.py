"""Dropout: how often, how much the rest is scaled, and when not at all.

Paper: 5.4
"""

from __future__ import annotations

import pytest
import torch

from dragoman import native
from dragoman.model.dropout import add_dropped, dropout, keep_mask, random_words


@pytest.mark.parametrize("P_drop", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_that_share_is_dropped_and_the_rest_scaled(P_drop, dtype):
    torch.manual_seed(0)
    y = dropout(torch.ones(400, 500, dtype=dtype), P_drop, True)
    assert y.dtype == dtype
    assert (y == 0).double().mean().item() == pytest.approx(P_drop, abs=0.005)
    kept = y[y != 0]
    assert (kept == kept[0]).all()
    tolerance = 4e-3 if dtype == torch.bfloat16 else 1e-6
    assert kept[0].item() == pytest.approx(1 / (1 - P_drop), rel=tolerance)


def test_elements_are_dropped_by_themselves():
    """Neighbors share a random draw of 64 bits, and must still be independent."""
    torch.manual_seed(0)
    kept = keep_mask(torch.Size([100_000, 4]), 0.5, torch.device("cpu")).double()
    correlation = torch.corrcoef(kept.T)
    assert (correlation - torch.eye(4)).abs().max() < 0.02
    across = torch.corrcoef(torch.stack([kept[1:, 0], kept[:-1, 3]]))[0, 1]
    assert abs(across) < 0.02


@pytest.mark.parametrize("shape", [(1,), (3,), (5, 7), (0, 4), (2, 3, 5)])
def test_any_number_of_elements(shape):
    mask = keep_mask(torch.Size(shape), 0.5, torch.device("cpu"))
    assert mask.shape == shape
    assert mask.dtype == torch.bool


def test_nothing_is_dropped_when_not_training_or_at_zero():
    x = torch.randn(2, 3, 4)
    assert dropout(x, 0.5, False) is x
    assert dropout(x, 0.0, True) is x


def test_the_gradient_passes_where_the_value_did():
    torch.manual_seed(1)
    x = torch.randn(50, 40, requires_grad=True)
    y = dropout(x, 0.3, True)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x, y)
    assert ((x.grad == 0) == (y == 0)).all()


def test_the_seed_decides_and_draws_differ():
    x = torch.ones(30, 40)
    torch.manual_seed(5)
    first, second = dropout(x, 0.5, True), dropout(x, 0.5, True)
    torch.manual_seed(5)
    assert torch.equal(dropout(x, 0.5, True), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("P_drop", [1e-6, 0.99999, 1 - 1e-9])
def test_probabilities_at_the_ends_stay_in_range(P_drop):
    torch.manual_seed(0)
    share = keep_mask(torch.Size([40_000]), P_drop, torch.device("cpu")).double().mean().item()
    assert share == pytest.approx(1 - P_drop, abs=1e-3)


@pytest.mark.parametrize(("P_drop", "training"), [(0.3, True), (0.0, True), (0.3, False)])
def test_a_sum_with_what_is_left_is_the_two_steps_in_one(P_drop, training):
    x, y = (torch.randn(50, 40, dtype=torch.float64, requires_grad=True) for _ in range(2))
    results = []
    for form in (lambda: x + dropout(y, P_drop, training), lambda: add_dropped(x, y, P_drop, training)):
        torch.manual_seed(3)
        z = form()
        results.append([z.detach(), *torch.autograd.grad(z.square().sum(), [x, y])])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-13, atol=1e-13)


def test_in_bf16_what_is_kept_is_scaled_before_it_is_rounded():
    """1 / 0.9 itself is 1.109 in bfloat16: a scale that is off by 0.2 per cent, everywhere and always."""
    torch.manual_seed(0)
    y = torch.full((400, 500), 100.0, dtype=torch.bfloat16)
    z = add_dropped(torch.zeros_like(y), y, 0.1, True)
    assert z.double().max().item() == 111.0


def splitmix64(seed: int, place: int) -> int:
    """As it is published, on Python's integers: the number after `place` others."""
    mask = (1 << 64) - 1
    z = (seed + (place + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


@pytest.mark.parametrize("seed", [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 1000])
def test_random_words_are_those_of_splitmix64(seed, count):
    wanted = [splitmix64(seed, place) for place in range(count)]
    assert [word % (1 << 64) for word in random_words(seed, count).tolist()] == wanted
    if (kernels := native.kernels()) is not None:
        assert torch.equal(kernels.random_words(seed, count), random_words(seed, count))


def test_the_published_first_number():
    """Of the state 1234567 (Vigna's reference implementation)."""
    assert splitmix64(1234567, 0) == 6457827717110365317


def test_masks_do_not_depend_on_what_computes_them(monkeypatch):
    masks = []
    for kernels in (native.kernels(), None):
        monkeypatch.setattr(native, "kernels", lambda k=kernels: k)
        torch.manual_seed(3)
        masks.append([keep_mask(torch.Size([n, 3]), 0.3, torch.device("cpu")) for n in (5, 64)])
    for one, other in zip(*masks, strict=True):
        assert torch.equal(one, other)
