"""A number's function is the same to the bit wherever the number stands."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.variants.elementwise import AT_ONCE, BLOCK, elementwise

FUNCTIONS = {"sigmoid": torch.sigmoid, "gelu": F.gelu, "silu": F.silu}


@settings(max_examples=60)
@given(
    name=st.sampled_from(sorted(FUNCTIONS)),
    before=st.integers(0, 70),
    after=st.integers(0, 70),
    count=st.integers(1, 40),
    seed=st.integers(0, 2**20),
)
def test_what_stands_around_does_not_matter(name, before, after, count, seed):
    generator = torch.Generator().manual_seed(seed)
    function = FUNCTIONS[name]
    x = 4.0 * torch.randn(before + count + after, generator=generator)
    with torch.no_grad():
        among = elementwise(function, x)[before : before + count]
        alone = elementwise(function, x[before : before + count])
    assert torch.equal(among, alone)
    torch.testing.assert_close(alone, function(x[before : before + count]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_more_than_threads_share(name):
    torch.set_num_threads(2)
    x = torch.randn(3 * BLOCK + 5)
    with torch.no_grad():
        whole = elementwise(FUNCTIONS[name], x)
        for start in (0, 1, BLOCK - 3, 2 * BLOCK + 1, 3 * BLOCK):
            part = elementwise(FUNCTIONS[name], x[start : start + 40])
            assert torch.equal(whole[start : start + 40], part)
    assert BLOCK % AT_ONCE == 0


def test_shape_number_format_and_gradient_stay():
    x = torch.randn(2, 3, 5, requires_grad=True)
    torch.testing.assert_close(elementwise(F.silu, x), F.silu(x))
    elementwise(F.silu, x).sum().backward()
    assert x.grad is not None
    with torch.no_grad():
        assert elementwise(F.silu, x).shape == (2, 3, 5)
        assert elementwise(F.silu, x.double()).dtype == torch.float64
        assert elementwise(F.silu, x.bfloat16()).dtype == torch.bfloat16
