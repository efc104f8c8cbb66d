"""Examples to follow with pencil and paper, and what goes wrong without each part of the design.

Paper: 3, 3.1, 3.2.1 (Eq. 1), 3.2.2, 3.2.3, 3.5
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
import torch
import torch.nn.functional as F
from random_models import build
from torch import Tensor, nn

from dragoman.model import transformer
from dragoman.model.attention import (
    MultiHeadAttention,
    attend_written_out,
    attention_weights,
    join_heads,
)
from dragoman.model.config import ModelConfig
from dragoman.model.feed_forward import FeedForward
from dragoman.model.mask import causal_mask
from dragoman.model.parts import Parts
from dragoman.model.position import sinusoids
from dragoman.model.transformer import Transformer

CAUSAL, RIGHT_SHIFT = "causal mask", "right shift"


def one_head(rows: list[list[float]]) -> Tensor:
    """(1, 1, L, d)."""
    return torch.tensor(rows, dtype=torch.float64)[None, None]


class TestTwoKeys:
    """Scores 0 and log 3: d_k is 1, the query 1, the keys 0 and log 3."""

    Q = one_head([[1.0]])
    K = one_head([[0.0], [math.log(3)]])
    V = one_head([[2.0, 0.0], [0.0, 4.0]])

    def test_the_weights_are_a_quarter_and_three_quarters(self):
        torch.testing.assert_close(attention_weights(self.Q, self.K), one_head([[0.25, 0.75]]))

    def test_the_output_is_the_weighted_sum_of_the_values(self):
        torch.testing.assert_close(attend_written_out(self.Q, self.K, self.V), one_head([[0.5, 3.0]]))

    def test_a_value_changes_the_output_and_no_weight(self):
        Q, K, V = (tensor.clone().requires_grad_() for tensor in (self.Q, self.K, self.V))
        weights = attention_weights(Q, K)
        other = self.V.clone()
        other[0, 0, 1] = torch.tensor([8.0, 4.0], dtype=torch.float64)
        torch.testing.assert_close(attend_written_out(Q, K, other), one_head([[6.5, 3.0]]))
        assert torch.equal(attention_weights(Q, K), weights)
        [to_V] = torch.autograd.grad(weights.square().sum(), [V], allow_unused=True)
        assert to_V is None

    def test_a_key_changes_the_weights(self):
        other = one_head([[0.0], [0.0]])
        torch.testing.assert_close(attention_weights(self.Q, other), one_head([[0.5, 0.5]]))


@dataclass
class Recorder:
    """Eq. 1, noting what passes through it."""

    scores: list[tuple[int, ...]] = field(default_factory=list)
    heads: list[Tensor] = field(default_factory=list)

    def __call__(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None) -> Tensor:
        self.scores.append(tuple(attention_weights(Q, K, mask).shape))
        self.heads.append(attend_written_out(Q, K, V, mask))
        return self.heads[-1]


def test_source_of_five_prefix_of_three_width_eight_four_heads():
    config = ModelConfig(vocab_size=10, N=1, d_model=8, d_ff=16, h=4, P_drop=0.0)
    recorder = Recorder()
    model = build(config, parts=Parts(attention=lambda shape: MultiHeadAttention(shape, recorder)))
    joined: list[Tensor] = []
    cross = model.decoder[0].cross_attention
    cross.register_forward_hook(lambda module, inputs, output: joined.append(output))

    model(torch.tensor([[3, 4, 5, 6, 7]]), torch.tensor([[2, 8, 9]]))

    # Encoder over itself, decoder over itself, decoder over encoder; a matrix for each of four heads.
    assert recorder.scores == [(1, 4, 5, 5), (1, 4, 3, 3), (1, 4, 3, 5)]
    assert recorder.heads[2].shape == (1, 4, 3, 2)
    concat = torch.cat([recorder.heads[2][0, i] for i in range(4)], dim=1)
    assert concat.shape == (3, 8)
    assert torch.equal(join_heads(recorder.heads[2])[0], concat)
    torch.testing.assert_close(joined[0][0], concat @ cross.W_O.T)


def test_the_last_position_reaches_no_earlier_one():
    config = ModelConfig(vocab_size=10, N=2, d_model=8, d_ff=16, h=2, P_drop=0.0)
    layer = build(config).decoder[0]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 6, 8, generator=generator, dtype=torch.float64)
    memory = torch.randn(1, 4, 8, generator=generator, dtype=torch.float64)
    other = x.clone()
    other[:, -1] += 100.0

    before, after = (layer(y, memory, causal_mask(6), None) for y in (x, other))
    assert torch.equal(before[:, :-1], after[:, :-1])
    assert not torch.allclose(before[:, -1], after[:, -1], atol=1e-3)

    everywhere = torch.ones_like(causal_mask(6))
    before, after = (layer(y, memory, everywhere, None) for y in (x, other))
    assert not torch.allclose(before[:, :-1], after[:, :-1], atol=1e-3)


V, L, BOS, EOS = 8, 6, 2, 1
ENTROPY = L * math.log(V) / (L + 1)  # of a token: L that are any of V, then EOS, which is no surprise


def loss_after_training(monkeypatch: pytest.MonkeyPatch, *, without: str | None) -> float:
    """Trains on fresh random sequences, about which a source of one token says nothing."""
    if without == CAUSAL:
        monkeypatch.setattr(
            transformer, "causal_mask", lambda T, device: torch.ones_like(causal_mask(T, device))
        )
    config = ModelConfig(vocab_size=V + 3, N=1, d_model=32, d_ff=64, h=2, P_drop=0.0)
    model = Transformer(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    generator = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(250):
        drawn = torch.randint(3, V + 3, (64, L), generator=generator)
        output = F.pad(drawn, (0, 1), value=EOS)
        shifted = F.pad(drawn, (1, 0), value=BOS)
        logits = model(torch.full((64, 1), EOS), output if without == RIGHT_SHIFT else shifted)
        loss = F.cross_entropy(logits.flatten(0, 1), output.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return sum(losses[-20:]) / 20


def test_as_published_nothing_can_be_copied(monkeypatch):
    assert 0.98 * ENTROPY < loss_after_training(monkeypatch, without=None) < 1.05 * ENTROPY


@pytest.mark.parametrize("without", [RIGHT_SHIFT, CAUSAL])
def test_the_answer_is_copied_without_the_right_shift_or_the_causal_mask(monkeypatch, without):
    assert loss_after_training(monkeypatch, without=without) < 0.05 * ENTROPY


class NoPosition(nn.Module):
    """In the place of positions, none."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def rows(self, length: int) -> None:
        pass

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        return x


@pytest.mark.parametrize("seed", range(3))
def test_without_positions_the_encoder_knows_no_order(seed):
    config = ModelConfig(vocab_size=30, N=2, d_model=16, d_ff=32, h=4, P_drop=0.0)
    source_ids = torch.tensor([[3, 9, 27, 4, 12, 11, 5]])
    order = torch.randperm(7, generator=torch.Generator().manual_seed(seed))
    assert not torch.equal(order, torch.arange(7))

    bag = build(config, parts=Parts(position=NoPosition))
    torch.testing.assert_close(bag.encode(source_ids[:, order]), bag.encode(source_ids)[:, order])

    model = build(config)
    moved, in_place = model.encode(source_ids[:, order]), model.encode(source_ids)[:, order]
    assert (moved - in_place).abs().max() > 0.1


@pytest.mark.parametrize("d_k", [16, 64, 256])
def test_scaling_brings_the_variance_of_a_score_from_d_k_to_one(d_k):
    """3.2.1, footnote 4: components that are independent with mean 0 and variance 1."""
    generator = torch.Generator().manual_seed(d_k)
    Q, K = (torch.randn(1, 1, 400, d_k, generator=generator, dtype=torch.float64) for _ in "QK")
    products = Q @ K.transpose(-2, -1)
    assert products.var().item() == pytest.approx(d_k, rel=0.05)
    assert products.mean().item() == pytest.approx(0.0, abs=0.05 * math.sqrt(d_k))
    # A softmax gives its scores away but for a constant in each row.
    scores = attention_weights(Q, K).log()
    assert scores.var(dim=-1).mean().item() == pytest.approx(1.0, rel=0.05)


def test_weights_of_one_attention_and_one_network_at_base_size():
    shape = ModelConfig.base(vocab_size=10)
    attention = sum(weight.numel() for weight in MultiHeadAttention(shape).parameters())
    network = FeedForward(shape)
    assert attention == 4 * 512 * 512  # 1.05M
    assert network.W_1.numel() + network.W_2.numel() == 2 * 512 * 2048  # 2.10M
    assert (round(attention / 1e6, 2), round(2 * 512 * 2048 / 1e6, 2)) == (1.05, 2.10)


def rotation(k: int, d_model: int) -> Tensor:
    """The one matrix of 3.5: for each wavelength, a turn by k of its angles."""
    blocks = []
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        sine, cosine = math.sin(angle), math.cos(angle)
        blocks.append(torch.tensor([[cosine, sine], [-sine, cosine]], dtype=torch.float64))
    return torch.block_diag(*blocks)


@pytest.mark.parametrize("k", [1, 7, 100])
def test_a_shift_by_k_is_one_linear_map_of_every_position(k):
    """3.5: "for any fixed offset k, PE(pos+k) can be represented as a linear function of PE(pos)"."""
    PE = sinusoids(900, 64)
    torch.testing.assert_close(PE[k:], PE[:-k] @ rotation(k, 64).T, rtol=0, atol=1e-11)
