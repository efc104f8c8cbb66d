"""The kernels in C++ compute what PyTorch does, values and gradients, in all shapes and number formats.

Paper: 3.1, 3.2.1 (Eq. 1), 5.4
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import dragoman
from dragoman.model.attention import attend_written_out
from dragoman.model.attention_native import attend_native
from dragoman.model.dropout import add_dropped
from dragoman.model.residual_native import add_and_norm
from dragoman.native import kernels
from dragoman.training.loss import _part_to_gradient, label_smoothed_loss, output_loss

compiled = kernels()
pytestmark = pytest.mark.skipif(compiled is None, reason="no C++ compiler here: PyTorch does the same steps")

# Of what is added up, for each rounding: float32: of sums and exponentials; bfloat16: to 8 bits.
ROUNDING = {torch.float32: 3e-6, torch.bfloat16: 2.0**-8}
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 8e-3}
DTYPES = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)


def drawn(*shape: int, seed: int, dtype: torch.dtype) -> Tensor:
    """Normal numbers that the format holds exactly."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def gradients(output: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """With a weight for each number of the output, so that nothing cancels."""
    weight = torch.linspace(-1.0, 1.0, output.numel(), dtype=torch.float64).view_as(output).to(torch.bfloat16)
    return list(torch.autograd.grad((output * weight.to(output.dtype)).sum(), inputs))


def assert_near(got: Tensor, want: Tensor, dtype: torch.dtype) -> None:
    assert got.dtype == dtype
    largest = max(1.0, want.abs().max().item())
    torch.testing.assert_close(got.double(), want.double(), rtol=0.0, atol=TOLERANCES[dtype] * largest)


def split(x: Tensor, h: int) -> Tensor:
    return x.view(*x.shape[:2], h, -1).transpose(1, 2)


def assert_rounded(got: Tensor, want: Tensor, added: Tensor, roundings: int, dtype: torch.dtype) -> None:
    """As far apart as so many roundings of each of the numbers whose sizes make up `added`, and one of the result."""
    bound = ROUNDING[dtype] * (roundings * added + want.abs()) + 1e-6 * added.max()
    excess = (got.double() - want).abs() - bound
    assert excess.max() <= 0, f"{excess.max():.3g} above the bound, {bound.flatten()[excess.argmax()]:.3g}"


def weights_of(f: list[Tensor], mask: Tensor | None) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)), rows without a legal key 0, from an identity for V."""
    identity = torch.eye(f[1].shape[2], dtype=f[0].dtype).expand(*f[1].shape[:2], -1, -1)
    return attend_written_out(f[0], f[1], identity, mask)


def sizes_of_attention(parts: list[Tensor], h: int, mask: Tensor | None) -> list[Tensor]:
    """What the output and each gradient add up, without signs: the weights P, kept in the format, are in all of it."""
    Q, K, V = (split(part.double(), h) for part in parts)
    P, count = weights_of([Q, K], mask), Q.shape[0] * h * Q.shape[2] * V.shape[3]
    G = torch.linspace(-1.0, 1.0, count, dtype=torch.float64).view(*P.shape[:3], V.shape[3]).abs()
    Q, K, V = Q.abs(), K.abs(), V.abs()
    along = G @ V.mT
    S = P * (along + (P * along).sum(dim=-1, keepdim=True)) / Q.shape[3] ** 0.5
    joined = (x.transpose(1, 2).flatten(2) for x in (S @ K, S.mT @ Q, P.mT @ G))
    return [P @ V, *joined]


def attended(form, parts: list[Tensor], h: int, mask: Tensor | None) -> list[Tensor]:
    inputs = [part.detach().requires_grad_() for part in parts]
    output = form(*(split(x, h) for x in inputs), mask)
    return [output.detach(), *gradients(output, inputs)]


@DTYPES
@settings(max_examples=30)
@given(
    B=st.integers(1, 3),
    h=st.integers(1, 3),
    lengths=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    widths=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    kind=st.sampled_from(["none", "keys", "rows", "both", "dead"]),
    seed=st.integers(0, 99),
)
def test_attention_is_that_of_the_equation(dtype, B, h, lengths, widths, kind, seed):
    (Q, K), (d_k, d_v) = lengths, widths
    sizes = ((B, Q, h * d_k), (B, K, h * d_k), (B, K, h * d_v))
    parts = [drawn(*size, seed=seed + n, dtype=dtype) for n, size in enumerate(sizes)]
    draw = torch.Generator().manual_seed(seed)
    shape = {"keys": (B, 1, 1, K), "rows": (1, 1, Q, K), "both": (B, 1, Q, K), "dead": (B, 1, Q, K)}.get(kind)
    mask = None if shape is None else torch.rand(shape, generator=draw) < (0.7 if kind != "dead" else 0.1)
    got = attended(lambda *a: attend_native(compiled, *a), parts, h, mask)
    want = attended(attend_written_out, [part.double() for part in parts], h, mask)
    for one, other, added in zip(got, want, sizes_of_attention(parts, h, mask), strict=True):
        assert one.dtype == dtype
        assert_rounded(one, other, added, 2, dtype)  # dS = P (dP - sum(P dP)) has P twice


@DTYPES
def test_attention_reads_heads_where_the_projection_left_them(dtype):
    """Slices of one product of three widths, and a gradient that comes in any layout."""
    packed = drawn(2, 5, 3 * 8, seed=1, dtype=dtype)
    want = attended(attend_written_out, [x.double() for x in packed.split(8, dim=-1)], 2, None)[0]
    Q, K, V = (split(x, 2) for x in packed.requires_grad_().split(8, dim=-1))
    output = attend_native(compiled, Q, K, V)
    assert_near(output.detach(), want, dtype)
    upstream = drawn(2, 5, 8, 2, seed=2, dtype=dtype)[..., 0].view(2, 5, 2, 4).transpose(1, 2)
    (one,) = torch.autograd.grad(output, packed, upstream, retain_graph=True)
    (other,) = torch.autograd.grad(output, packed, upstream.contiguous())
    assert torch.equal(one, other)


@DTYPES
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 300.0])
def test_attention_holds_where_scores_are_large_or_equal(dtype, scale):
    parts = [drawn(1, 9, 16, seed=n, dtype=dtype) * scale for n in range(2)] + [
        drawn(1, 9, 16, seed=5, dtype=dtype)
    ]
    got = attended(lambda *a: attend_native(compiled, *a), parts, 2, None)[0]
    want = attended(attend_written_out, [part.double() for part in parts], 2, None)[0]
    assert_near(got, want, dtype)


@DTYPES
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_does_not_hide(bad, dtype):
    """Training stops at a loss that is not finite: a kernel must not turn it into a number."""
    parts = [drawn(1, 3, 4, seed=n, dtype=dtype) for n in range(3)]
    parts[0][0, 1] = bad
    output = attend_native(compiled, *(split(x, 1) for x in parts))[0, 0]
    assert output[1].isnan().all()
    assert output[[0, 2]].isfinite().all()
    x, norm = drawn(3, 20, seed=1, dtype=dtype), nn.LayerNorm(20, dtype=dtype)
    x[1, 19] = bad
    y = add_and_norm(compiled, x, torch.zeros_like(x), norm, 0.0)
    assert y[1].isnan().all()
    assert y[[0, 2]].isfinite().all()
    logits = drawn(3, 20, seed=1, dtype=dtype)
    logits[1, 3] = bad
    log_Z = compiled.loss_gradient(logits, torch.tensor([0, 1, 2]), 0.9)
    assert not log_Z[1].isfinite()
    assert log_Z[[0, 2]].isfinite().all()
    assert not logits[1].isfinite().all()


@DTYPES
@settings(max_examples=30)
@given(
    rows=st.integers(1, 9),
    d=st.integers(1, 80),
    P_drop=st.sampled_from([0.0, 0.1, 0.5, 0.9]),
    seed=st.integers(0, 99),
)
def test_add_and_norm_is_what_its_parts_are(dtype, rows, d, P_drop, seed):
    """With the same random numbers, so that the same elements are dropped."""
    x, f = (drawn(rows, d, seed=seed + n, dtype=dtype) for n in range(2))
    norm = nn.LayerNorm(d, eps=1e-2, dtype=dtype)  # so that a width of 1 has a gradient worth comparing
    with torch.no_grad():
        norm.weight.copy_(drawn(d, seed=seed + 2, dtype=dtype))
        norm.bias.copy_(drawn(d, seed=seed + 3, dtype=dtype))
    found = []
    for native in (True, False):
        own = norm if native else nn.LayerNorm(d, eps=1e-2, dtype=torch.float64)
        own.load_state_dict(norm.state_dict())
        inputs = [t.detach().to(own.weight.dtype).requires_grad_() for t in (x, f)]
        torch.manual_seed(seed)
        y = (
            add_and_norm(compiled, *inputs, own, P_drop)
            if native
            else own(add_dropped(*inputs, P_drop, training=True))
        )
        found.append([y.detach(), *gradients(y, [*inputs, own.weight, own.bias])])
    kept = 1.0 / (1.0 - P_drop)
    for got, want in zip(*found, strict=True):
        assert got.dtype == dtype
        largest = max(1.0, want.abs().max().item(), kept)
        # x + f is rounded to the format before the norm, which a narrow variance then widens.
        torch.testing.assert_close(got.double(), want, rtol=0.0, atol=4 * TOLERANCES[dtype] * largest)


@DTYPES
@pytest.mark.parametrize("V", [2, 15, 16, 17, 1003])
@pytest.mark.parametrize("scale", [0.0, 1.0, 50.0])
def test_the_gradient_of_the_loss(dtype, V, scale):
    logits = drawn(7, V, seed=V, dtype=dtype) * scale
    targets = torch.arange(7) * 3 % V
    got, want = logits.clone(), logits.double()
    log_Z, wanted = compiled.loss_gradient(got, targets, 0.9), _part_to_gradient(want, targets, 0.9)
    assert_near(got, want, dtype)
    torch.testing.assert_close(log_Z.double(), wanted, rtol=1e-6, atol=1e-6)


needs_whole_loss = pytest.mark.skipif(
    compiled is None or not compiled.has_output_loss, reason="this processor has no tiles of bf16"
)


def whole_loss(n: int, d: int, V: int, *, scale: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    hidden = drawn(n, d, seed=seed, dtype=torch.bfloat16) * scale
    weight = drawn(V, d, seed=seed + 1, dtype=torch.bfloat16) * d**-0.5
    targets = torch.randint(0, V, (n,), generator=torch.Generator().manual_seed(seed))
    return hidden, weight, targets


def exact_loss(hidden: Tensor, weight: Tensor, targets: Tensor) -> list[Tensor]:
    """By autograd, in float64."""
    x, E = hidden.double().requires_grad_(), weight.double().requires_grad_()
    loss = label_smoothed_loss(x @ E.t(), targets, 0.1, pad_id=-1)
    return [loss.smoothed.detach(), loss.nll, *torch.autograd.grad(loss.smoothed, [x, E])]


def sizes_of_loss(hidden: Tensor, weight: Tensor, targets: Tensor) -> list[Tensor]:
    """What both gradients add up, without signs: p - q is rounded for the products, apart from what all classes get."""
    x, E = hidden.double(), weight.double()
    low = 0.1 / (E.shape[0] - 1)
    G = (x @ E.t()).softmax(dim=-1)
    G[torch.arange(len(G)), targets] -= 0.9 - low
    G = G.abs() + low
    return [G @ E.abs(), G.t() @ x.abs()]


def our_loss(hidden: Tensor, weight: Tensor, targets: Tensor) -> list[Tensor]:
    x, E = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
    loss = output_loss(x[None], E, targets[None], 0.1, pad_id=-1)
    return [loss.smoothed.detach(), loss.nll, *torch.autograd.grad(loss.smoothed, [x, E])]


@needs_whole_loss
@settings(max_examples=40)
@given(
    n=st.sampled_from([1, 2, 31, 32, 33, 255, 256, 257, 300]),
    d=st.sampled_from([2, 16, 30, 32, 48, 128]),
    V=st.sampled_from([2, 15, 16, 17, 33, 1000, 1024, 1025, 2100]),
    scale=st.sampled_from([0.0, 1.0, 5.0]),
    threads=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_the_whole_loss_is_that_of_the_logits(n, d, V, scale, threads, seed):
    given_ = whole_loss(n, d, V, scale=scale, seed=seed)
    torch.set_num_threads(threads)
    got, want = our_loss(*given_), exact_loss(*given_)
    for one, other in zip(got[:2], want[:2], strict=True):
        assert one.item() == pytest.approx(other.item(), rel=1e-4, abs=1e-3)
    for one, other, added in zip(got[2:], want[2:], sizes_of_loss(*given_), strict=True):
        assert_rounded(one, other, added, 1, torch.bfloat16)
    assert all(torch.equal(one, again) for one, again in zip(got, our_loss(*given_), strict=True))


@needs_whole_loss
@pytest.mark.parametrize("kind", ["far below what they might be", "large"])
def test_the_whole_loss_holds_at_the_ends_of_the_numbers(kind):
    """Rows as long as can be, against weights that point elsewhere: no logit comes near what might have been."""
    hidden, weight, targets = whole_loss(40, 32, 50, scale=1.0, seed=1)
    if kind == "large":
        hidden, weight = hidden * 30, weight * 30
    else:
        hidden[:] = 0.0
        hidden[:, 0] = 100.0
        weight[:, 0] = -30.0
        weight[:, 1] = 30.0
    got, want = our_loss(hidden, weight, targets), exact_loss(hidden, weight, targets)
    for one, other in zip(got, want, strict=True):
        largest = max(other.abs().max().item(), 1e-2)
        torch.testing.assert_close(one.double(), other.double(), rtol=1e-3, atol=1.5e-2 * largest)


@needs_whole_loss
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_the_whole_loss_hides_nothing(bad):
    hidden, weight, targets = whole_loss(40, 32, 50, scale=1.0, seed=1)
    hidden[3, 5] = bad
    assert not our_loss(hidden, weight, targets)[0].isfinite()


@DTYPES
@pytest.mark.parametrize("bad", [-1, 20])
def test_numbers_of_rows_that_are_none_are_refused_and_not_read(dtype, bad):
    ids, weight = torch.tensor([1, bad]), drawn(20, 8, seed=1, dtype=dtype)
    calls = (
        lambda: compiled.embed_forward(weight, ids, torch.zeros(2, dtype=torch.int64), weight, 1.0, None),
        lambda: compiled.embed_forward(weight, torch.zeros(2, dtype=torch.int64), ids, weight, 1.0, None),
        lambda: compiled.embed_backward(drawn(2, 8, seed=1, dtype=dtype), ids, 1.0, None, torch.zeros(20, 8)),
        lambda: compiled.loss_gradient(drawn(2, 20, seed=1, dtype=dtype), ids, 0.9),
    )
    for call in calls:
        with pytest.raises(AssertionError, match="outside 0"):
            call()


@DTYPES
def test_a_masked_column_has_no_gradient(dtype):
    logits = drawn(2, 20, seed=1, dtype=dtype)
    logits[:, 5] = -torch.inf
    compiled.loss_gradient(logits, torch.tensor([0, 1]), 0.9)
    assert (logits[:, 5] == 0).all()
    assert logits.isfinite().all()


@DTYPES
def test_threads_change_sums_over_rows_alone(dtype):
    """Everything else is done row by row: to the bit the same."""
    x, f, up = (drawn(57, 24, seed=n, dtype=dtype) for n in range(3))
    norm, found = nn.LayerNorm(24, dtype=dtype), []
    for count in (1, 2, 1):
        torch.set_num_threads(count)
        y, z, mean, deviation = compiled.residual_forward(x, f, None, norm.weight, norm.bias, 1e-6)
        found.append([y, *compiled.residual_backward(up, z, mean, deviation, norm.weight, None)])
    for one, two, again in zip(*found, strict=True):
        assert torch.equal(one, again)
        if one.dim() == 2:
            assert torch.equal(one, two)
        else:
            torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-5)


def test_a_run_without_them_learns_the_same(small_corpus, tmp_path):
    """Ten updates in float32 in a process of its own each: every loss to 1e-4.

    Without dropout, which is drawn for the tokens alone where the gradient is written out.
    """
    source = str(Path(dragoman.__file__).parents[1])
    code = (
        "import sys, torch; torch.set_num_threads(1)\n"
        "from tiny_runs import tiny_recipe; from dragoman import native, train\n"
        "from dragoman.training.events import Stepped\n"
        "print(native.kernels() is not None)\n"
        "def tell(event):\n"
        "    if isinstance(event, Stepped): print(event.loss)\n"
        "changes = ['training.max_steps=10', 'model.P_drop=0.0', 'model.d_model=96', 'model.d_ff=100', 'model.h=3']\n"
        "train(sys.argv[1], sys.argv[2], recipe=tiny_recipe(), changes=changes, on_event=tell)\n"
    )
    found = []
    for switch in ("1", "0"):
        environment = {
            **os.environ,
            "DRAGOMAN_NATIVE": switch,
            "PYTHONPATH": os.pathsep.join([source, str(Path(__file__).parents[1])]),
        }
        command = [sys.executable, "-c", code, str(small_corpus.directory), str(tmp_path / switch)]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        is_native, *losses = result.stdout.split()
        assert is_native == str(switch == "1")
        found.append([float(loss) for loss in losses])
    assert len(found[0]) == 10
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert found[0] != found[1]
