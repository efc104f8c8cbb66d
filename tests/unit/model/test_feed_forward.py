"""The position-wise network.

Paper: 3.3 (Eq. 2)
"""

from __future__ import annotations

import torch
from random_models import CONFIGS, build

from dragoman.model.feed_forward import FeedForward

CONFIG = CONFIGS["odd_heads"]  # d_model 12, d_ff 7


def test_its_weights():
    network = FeedForward(CONFIG)
    assert {name: tuple(weight.shape) for name, weight in network.named_parameters()} == {
        "W_1": (7, 12),
        "b_1": (7,),
        "W_2": (12, 7),
        "b_2": (12,),
    }


def test_each_position_is_by_itself():
    network = build(CONFIG).encoder[0].feed_forward
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    other = x.clone()
    other[0, 2] += 1.0
    before, after = network(x), network(other)
    changed = (before != after).any(dim=-1)
    assert changed.nonzero().tolist() == [[0, 2]]
    torch.testing.assert_close(network(x[1, 3]), before[1, 3])


def test_what_lies_below_zero_inside_is_lost():
    network = build(CONFIG).encoder[0].feed_forward
    with torch.no_grad():
        network.b_1.fill_(-1e6)
    x = torch.randn(3, 12, dtype=torch.float64)
    assert torch.equal(network(x), network.b_2.expand(3, 12))


def test_above_zero_it_is_linear():
    network = build(CONFIG).encoder[0].feed_forward
    with torch.no_grad():
        network.b_1.fill_(1e3)
    x, y = torch.randn(12, dtype=torch.float64), torch.randn(12, dtype=torch.float64)
    torch.testing.assert_close(network(x) + network(y), network(x + y) + network(torch.zeros_like(x)))
