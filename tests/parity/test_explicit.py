"""The gradient that is written out is the one autograd finds, for every parameter, with dropout and without.

Paper: 3, 5.4
"""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman.data.batches import Batch
from dragoman.model.config import ModelConfig
from dragoman.model.transformer import Transformer
from dragoman.native import kernels
from dragoman.training import explicit
from dragoman.training.loss import output_loss
from dragoman.training.optimizer import FlatAdam

pytestmark = pytest.mark.skipif(kernels() is None, reason="no C++ compiler here: autograd finds the gradient")

V, EPS_LS = 53, 0.1
SHAPES = {
    "tiny": {},
    "odd widths": {"d_model": 36, "d_ff": 50, "h": 3, "N": 2},
    "d_k != d_v": {"d_model": 24, "h": 2, "d_k": 10, "d_v": 7, "N": 1},
    "three matrices": {"N": 1, "shared_embeddings": False, "tied_output": False, "source_vocab_size": V},
}


def model_of(sizes: dict, P_drop: float, dtype: torch.dtype) -> tuple[Transformer, Transformer]:
    """A model whose every parameter is other than at the start, and the same in float64 (rounded alike)."""
    model = Transformer(ModelConfig.tiny(vocab_size=V, P_drop=P_drop, **sizes), seed=2).train()
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=draw))
        # Units that are clearly on or off: at max(0, x) near x = 0 the last bit decides whether there is a gradient.
        for layer in (*model.encoder, *model.decoder):
            layer.feed_forward.b_1[::2] += 8.0
            layer.feed_forward.b_1[1::2] -= 8.0
    FlatAdam(model, dtype, beta_1=0.9, beta_2=0.98, epsilon=1e-9)
    exact = copy.deepcopy(model)
    for parameter in exact.parameters():
        parameter.data, parameter.grad = parameter.data.double(), None
    return model, exact.double()


def batch_of(lengths: list[tuple[int, int]], *, seed: int) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    source, target = (
        torch.zeros(len(lengths), max(n), dtype=torch.int64) for n in zip(*lengths, strict=True)
    )
    for row, (S, T) in enumerate(lengths):
        source[row, :S] = torch.randint(4, V, (S,), generator=draw)
        target[row, :T] = torch.randint(4, V, (T,), generator=draw)
    shifted = torch.cat([torch.full((len(lengths), 1), 2), target[:, :-1]], dim=1).masked_fill(target == 0, 0)
    tokens = (int((ids != 0).sum()) for ids in (source, target))
    return Batch(source, shifted, target, torch.arange(len(lengths)), *tokens)


def by_autograd(model: Transformer, batch: Batch) -> tuple[list[float], dict[str, Tensor]]:
    for parameter in model.parameters():
        parameter.grad = None
    hidden = model.hidden(batch.source_ids, batch.target_input_ids)
    loss = output_loss(hidden, model.output_weight, batch.target_output_ids, EPS_LS, pad_id=0)
    loss.smoothed.backward()
    return [loss.smoothed.item(), loss.nll.item()], {n: p.grad.double() for n, p in model.named_parameters()}


def written_out(model: Transformer, batch: Batch) -> tuple[list[float], dict[str, Tensor]]:
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, torch.nan)  # each is written, none is added to
    sums = explicit.loss_and_gradient(model, explicit.serves(model), batch, EPS_LS)
    return [each.item() for each in sums], {n: p.grad.double() for n, p in model.named_parameters()}


def error(got: dict[str, Tensor], want: dict[str, Tensor]) -> float:
    """Largest relative difference of a parameter's gradient, by its Euclidean norm."""
    assert got.keys() == want.keys()
    return max(((got[n] - want[n]).norm() / want[n].norm().clamp(min=1e-6)).item() for n in want)


@pytest.mark.parametrize("sizes", SHAPES.values(), ids=SHAPES)
@settings(max_examples=10)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=8),
    threads=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_gradients_are_those_of_autograd(sizes, lengths, threads, seed):
    torch.set_num_threads(threads)
    model, exact = model_of(sizes, 0.0, torch.float32)
    batch = batch_of(lengths, seed=seed)
    (sums, got), (wanted, want) = written_out(model, batch), by_autograd(exact, batch)
    assert sums == pytest.approx(wanted, rel=1e-5)
    assert error(got, want) < 1e-4


@pytest.mark.parametrize("sizes", SHAPES.values(), ids=SHAPES)
def test_dropout_falls_where_the_model_has_it(sizes):
    """Without padding and with rows enough for no unused ones the draws are the same, element by element."""
    model, _ = model_of(sizes, 0.3, torch.float32)
    batch = batch_of([(8, 8)] * 8, seed=1)
    torch.manual_seed(7)
    sums, got = written_out(model, batch)
    torch.manual_seed(7)
    wanted, want = by_autograd(model, batch)
    assert sums == pytest.approx(wanted, rel=1e-6)
    assert error(got, want) < 1e-5
    torch.manual_seed(8)
    assert written_out(model, batch)[0] != pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("sizes", SHAPES.values(), ids=SHAPES)
def test_in_bf16_it_is_as_near_to_the_truth_as_autograd_is(sizes):
    model, exact = model_of(sizes, 0.0, torch.bfloat16)
    batch = batch_of([(9, 12), (20, 17), (3, 1), (14, 14), (30, 8)] * 4, seed=3)
    wanted, want = by_autograd(exact, batch)
    sums, got = written_out(model, batch)
    autograd_sums, by_autograd_bf16 = by_autograd(model, batch)
    assert sums == pytest.approx(wanted, rel=2e-3)
    assert autograd_sums == pytest.approx(wanted, rel=2e-3)
    assert error(got, want) < 1.3 * error(by_autograd_bf16, want) + 0.01


def test_padding_and_its_amount_change_nothing():
    model, _ = model_of({}, 0.0, torch.float32)
    batch = batch_of([(5, 7), (9, 3)], seed=1)
    more = replace(
        batch,
        **{
            name: torch.nn.functional.pad(getattr(batch, name), (0, 5))
            for name in ("source_ids", "target_input_ids", "target_output_ids")
        },
    )
    (one, gradients), (other, same) = written_out(model, batch), written_out(model, more)
    assert one == other
    assert all(torch.equal(gradients[name], same[name]) for name in gradients)


def test_a_model_of_other_parts_is_left_to_autograd():
    model, exact = model_of({}, 0.0, torch.float32)
    assert explicit.serves(model) is kernels()
    assert explicit.serves(exact) is None, "float64"
    model.decoder_layers[0].residual_1.norm = torch.nn.Identity()
    assert explicit.serves(model) is None
