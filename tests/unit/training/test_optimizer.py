"""FlatAdam against torch.optim.Adam over separate parameters; masters; pieces; state.

Paper: 5.3
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from dragoman.model.config import ModelConfig
from dragoman.model.transformer import Transformer
from dragoman.training.loss import output_loss
from dragoman.training.optimizer import FlatAdam

TIED = ModelConfig(vocab_size=13, N=1, d_model=8, d_ff=12, h=2, P_drop=0.0)
UNTIED = ModelConfig(
    vocab_size=10,
    source_vocab_size=14,
    shared_embeddings=False,
    tied_output=False,
    N=1,
    d_model=8,
    d_ff=12,
    h=2,
    P_drop=0.0,
)


def adam_of(model: nn.Module, dtype: torch.dtype = torch.float32) -> FlatAdam:
    return FlatAdam(model, dtype, beta_1=0.9, beta_2=0.98, epsilon=1e-9)


def batch_of(config: ModelConfig, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sources = torch.randint(1, config.source_rows, (3, 5), generator=generator)
    targets = torch.randint(1, config.vocab_size, (3, 5), generator=generator)
    return sources, targets[:, :-1], targets[:, 1:]


def backward(model: Transformer, seed: int) -> None:
    sources, inputs, outputs = batch_of(model.config, seed)
    hidden = model.hidden(sources, inputs)
    output_loss(hidden, model.output_weight, outputs, 0.1, pad_id=0).smoothed.backward()


@pytest.mark.parametrize("config", [TIED, UNTIED], ids=["tied", "untied"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)], ids=["float64", "float32"]
)
def test_twenty_updates_are_those_of_torch(config, dtype, tolerance):
    ours, theirs = (Transformer(config, seed=3).to(dtype) for _ in range(2))
    flat = adam_of(ours, dtype)
    torch_adam = torch.optim.Adam(theirs.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(20):
        rate = 0.01 / (step + 1)
        flat.zero_gradient()
        backward(ours, step)
        flat.gather(first=True, last=True)
        flat.step(rate)
        torch_adam.zero_grad()
        backward(theirs, step)
        torch_adam.param_groups[0]["lr"] = rate
        torch_adam.step()
    moved = 0.0
    start = dict(Transformer(config, seed=3).named_parameters())
    for (name, mine), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance, msg=name)
        moved = max(moved, float((mine - start[name].to(dtype)).detach().abs().max()))
    assert moved > 0.01
    for parameter, (name, mine) in zip(theirs.parameters(), ours.named_parameters(), strict=True):
        first, second = flat.moments()[f"first.{name}"], flat.moments()[f"second.{name}"]
        assert first.shape == second.shape == mine.shape
        state = torch_adam.state[parameter]
        torch.testing.assert_close(first, state["exp_avg"], rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(second, state["exp_avg_sq"], rtol=tolerance, atol=tolerance)


def test_the_first_update_by_hand():
    """m^ = g and v^ = g^2 after one step: every weight moves by rate * g / (|g| + epsilon)."""
    model = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 2.0]]))
    flat = adam_of(model)
    flat.zero_gradient()
    model.weight.grad.copy_(torch.tensor([[0.5, -4.0]]))
    flat.gather(first=True, last=True)
    flat.step(0.25)
    torch.testing.assert_close(model.weight.detach(), torch.tensor([[0.75, 2.25]]), rtol=1e-6, atol=0)
    moments = flat.moments()
    torch.testing.assert_close(moments["first.weight"], torch.tensor([[0.05, -0.4]]), rtol=1e-6, atol=0)
    torch.testing.assert_close(moments["second.weight"], torch.tensor([[0.005, 0.32]]), rtol=1e-6, atol=0)


def test_values_stay_when_parameters_become_views():
    model = Transformer(TIED, seed=2)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    flat = adam_of(model)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert flat.weights().keys() == before.keys()
    storages = {p.untyped_storage().data_ptr() for p in model.parameters()}
    assert len(storages) == 1
    assert model.source_embedding.weight is model.target_embedding.weight


def test_small_updates_are_not_lost_in_bf16():
    """2^-9 is below half the step of bf16 at 1: only a float32 master can add it up."""
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    flat = adam_of(model, torch.bfloat16)
    assert model.weight.dtype == torch.bfloat16
    values = []
    for _ in range(8):
        flat.zero_gradient()
        model.weight.grad.fill_(-1.0)
        flat.gather(first=True, last=True)
        flat.step(2.0**-9)
        values.append(float(model.weight.detach()))
    master = flat.weights()["weight"]
    assert master.dtype == torch.float32
    assert float(master) == pytest.approx(1.0 + 8 * 2.0**-9, rel=1e-6)
    assert values[0] == 1.0
    assert values[-1] == pytest.approx(1.0 + 8 * 2.0**-9, abs=2.0**-8)
    assert values[-1] > 1.0


def test_pieces_in_bf16_are_gathered_in_float32():
    """1 + 2^-9 + 2^-9 is 1 in bf16, added one by one."""
    model = nn.Linear(1, 1, bias=False)
    flat = adam_of(model, torch.bfloat16)
    for number, piece in enumerate((1.0, 2.0**-9, 2.0**-9)):
        flat.zero_gradient()
        (model.weight * piece).sum().backward()
        flat.gather(first=number == 0, last=number == 2)
    assert flat.scale_gradient(1.0) == 1.0 + 2.0**-8


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_gradient_of_a_batch_is_the_sum_of_its_pieces(dtype, count):
    """Also of the next batch, whose first piece takes the place of what was gathered before."""
    model = nn.Linear(2, 1, bias=False)
    flat = adam_of(model, dtype)
    for batch in (1.0, 5.0):
        for number in range(count):
            flat.zero_gradient()
            (model.weight * (batch + number)).sum().backward()
            flat.gather(first=number == 0, last=number == count - 1)
        assert flat.gathered().tolist() == [count * batch + sum(range(count))] * 2


def test_floating_buffers_follow_the_number_format():
    model = Transformer(TIED)
    adam_of(model, torch.bfloat16)
    assert model.position.table.dtype == torch.bfloat16
    assert model.dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_norm_is_of_the_scaled_gradient(dtype):
    model = nn.Linear(2, 2, bias=False)
    flat = adam_of(model, dtype)
    flat.zero_gradient()
    model.weight.grad.copy_(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    flat.gather(first=True, last=True)
    assert flat.scale_gradient(0.5) == pytest.approx(2.5)
    assert flat.scale_gradient(2.0) == pytest.approx(5.0)


def test_zero_gradient_forgets_everything():
    for dtype in (torch.float32, torch.bfloat16):
        model = nn.Linear(2, 2, bias=False)
        flat = adam_of(model, dtype)
        model.weight.grad.fill_(3.0)
        flat.gather(first=True, last=True)
        model.weight.grad.fill_(1.0)
        flat.zero_gradient()
        flat.gather(first=True, last=True)
        assert flat.scale_gradient(1.0) == 0.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_loaded_state_goes_on_as_if_never_stored(dtype):
    """I16: weights, moments and the count of updates are all the state there is."""
    straight, stopped = Transformer(TIED, seed=1), Transformer(TIED, seed=1)
    one, two = adam_of(straight, dtype), adam_of(stopped, dtype)

    def go(model: Transformer, flat: FlatAdam, seeds: range) -> None:
        for seed in seeds:
            flat.zero_gradient()
            backward(model, seed)
            flat.gather(first=True, last=True)
            flat.scale_gradient(0.1)
            flat.step(0.01)

    go(straight, one, range(6))
    go(stopped, two, range(3))
    weights = {name: value.clone() for name, value in two.weights().items()}
    moments = {name: value.clone() for name, value in two.moments().items()}
    other = Transformer(TIED, seed=9)
    three = adam_of(other, dtype)
    go(other, three, range(2))
    three.load(weights, moments, 3)
    for name, value in three.weights().items():
        assert torch.equal(value, weights[name])
    go(other, three, range(3, 6))
    for name, value in (one.weights() | one.moments()).items():
        assert torch.equal(value, (three.weights() | three.moments())[name]), name
    assert all(torch.equal(a, b) for a, b in zip(straight.parameters(), other.parameters(), strict=True))


def test_the_count_of_updates_lies_where_the_weights_do():
    """A fused update wants it on the weights' device."""
    with torch.device("meta"):
        model = nn.Linear(2, 2)
    flat = FlatAdam(model, torch.float32, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    assert flat._step.device.type == "meta"
