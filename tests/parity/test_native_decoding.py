"""Decoding by the kernels in C++ is decoding by PyTorch: logits, order among equals, alone as among others.

Paper: 3
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from wide_models import FORMATS, V, compiled, served, wide_model

from dragoman.errors import DragomanError
from dragoman.model import attention, embedding, feed_forward
from dragoman.model.config import ModelConfig
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.incremental_native import NativeDecoder
from dragoman.model.packed import PackedModel
from dragoman.model.parts import Parts
from dragoman.model.residual import PostNorm
from dragoman.model.transformer import Transformer
from dragoman.search import candidates
from dragoman.search.candidates import Bans, best_continuations
from dragoman.search.greedy import best_tokens

pytestmark = pytest.mark.skipif(compiled is None, reason="no C++ compiler here: PyTorch does the same steps")

SHAPES = {
    "tiny": {},
    "odd widths": {"d_model": 36, "d_ff": 50, "h": 3, "N": 2},
    "d_k != d_v": {"d_model": 40, "h": 1, "d_k": 20, "d_v": 7, "N": 1},
    "two matrices": {"N": 1, "shared_embeddings": False, "tied_output": False, "source_vocab_size": 50},
}


def sources(lengths: list[int], *, seed: int) -> Tensor:
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
    draw = torch.Generator().manual_seed(seed)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = torch.randint(4, 50, (length,), generator=draw)
    return ids


def walk(decoders: list, sentences: int, steps: int, *, seed: int):
    """The logits of each decoder at each step of a search that drops sentences and changes its width."""
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.full((sentences, 1), 2)
    for _ in range(steps):
        yield [decoder(tokens) for decoder in decoders]
        B, K = tokens.shape
        staying = torch.arange(B)[torch.rand(B, generator=draw) < 0.9]
        if len(staying) == 0:
            return
        width = int(torch.randint(1, 6, (), generator=draw))
        parents = torch.randint(0, K, (len(staying), width), generator=draw)
        for decoder in decoders:
            decoder.reorder(staying, parents)
        tokens = torch.randint(4, V, (len(staying), width), generator=draw)


@pytest.mark.parametrize("sizes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("threads", [1, 2])
def test_logits_are_those_of_pytorch(sizes, threads):
    torch.set_num_threads(threads)
    model = wide_model(**sizes)
    ids = sources([21, 3, 17, 1, 8, 16, 40], seed=1)
    decoders = [NativeDecoder(PackedModel.of(model), ids), IncrementalDecoder(model, ids)]
    steps = 0
    for got, want in walk(decoders, len(ids), 40, seed=2):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=3e-5)
        steps += 1
    assert steps > 16, "long enough for the cache to grow twice"


@pytest.mark.parametrize("products", [served("bf16")])
@pytest.mark.parametrize("sizes", SHAPES.values(), ids=SHAPES)
def test_products_of_bf16_are_those_of_rounded_numbers(sizes, products):
    """Against the same model with its matrices rounded to bf16; what is left is the rounding of what goes into them."""
    model, rounded = wide_model(**sizes), wide_model(**sizes)
    with torch.no_grad():
        for parameter in rounded.parameters():
            if parameter.dim() == 2 and parameter is not rounded.target_embedding.weight:
                parameter.copy_(parameter.bfloat16())
    ids = sources([21, 3, 17, 1], seed=1)
    decoders = [NativeDecoder(PackedModel.of(model, products), ids), IncrementalDecoder(rounded, ids)]
    for got, want in walk(decoders, len(ids), 12, seed=2):
        assert (got - want).abs().max() < 0.05 * want.abs().max()
        assert (got - want).abs().mean() < 0.005 * want.abs().max()


def products_of_bytes(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`linear` with both rounded to 255 levels a row, in float64."""

    def rounded(rows: Tensor) -> Tensor:
        scales = rows.abs().amax(dim=-1, keepdim=True).double() / 127
        return (rows / scales).round() * scales

    result = rounded(x.double()) @ rounded(weight.double()).t()
    return (result if bias is None else result + bias).float()


@pytest.mark.parametrize("products", [served("int8")])
@pytest.mark.parametrize("sizes", SHAPES.values(), ids=SHAPES)
def test_products_of_int8_are_those_of_numbers_of_255_levels(sizes, products, monkeypatch):
    """Written out in PyTorch; at the edge of two levels the last bit decides, which is far less than the levels do."""
    model, ids = wide_model(**sizes), sources([21, 3, 17, 1], seed=1)
    exact = IncrementalDecoder(model, ids)
    wanted = [logits for (logits,) in walk([exact], len(ids), 12, seed=2)]
    for module in (attention, embedding, feed_forward):
        monkeypatch.setattr(module, "linear", products_of_bytes)
    decoders = [NativeDecoder(PackedModel.of(model, products), ids), IncrementalDecoder(model, ids)]
    apart = rounding = 0.0
    for (got, want), true in zip(walk(decoders, len(ids), 12, seed=2), wanted, strict=True):
        apart += (got - want).abs().mean().item()
        rounding += (want - true).abs().mean().item()
        assert (got - true).abs().mean() < 0.03 * true.abs().max()
    assert 0 < apart < 0.2 * rounding


@pytest.mark.parametrize("products", [served("int8")])
def test_what_is_zero_tiny_huge_or_no_number_in_bytes(products):
    """Rows and outputs of zeros have no scale; what is not finite stays so."""
    model, ids = wide_model(N=1), sources([4], seed=1)
    with torch.no_grad():
        model.decoder_layers[0].feed_forward.W_1[:10] = 0.0
        model.decoder_layers[0].feed_forward.W_1[10:20] *= 1e-35
        model.decoder_layers[0].feed_forward.W_2[:3] *= 1e-38
        model.decoder_layers[0].cross_attention.W_O.zero_()
    logits = NativeDecoder(PackedModel.of(model, products), ids)(torch.tensor([[2]]))
    exact = IncrementalDecoder(model, ids)(torch.tensor([[2]]))
    assert (logits - exact).abs().mean() < 0.05 * exact.abs().max()
    for bad in (torch.nan, torch.inf):
        with torch.no_grad():
            model.decoder_layers[0].residual_2.norm.bias[3] = bad
        assert NativeDecoder(PackedModel.of(model, products), ids)(torch.tensor([[2]])).isnan().all()


@pytest.mark.parametrize("products", FORMATS)
@settings(max_examples=20)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    alone=st.integers(0, 11),
    threads=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_a_sentence_alone_and_among_others(products, lengths, alone, threads, seed):
    """To the bit, with other padding, another place in its block and another number of threads."""
    packed = PackedModel.of(wide_model(N=1), products)
    alone %= len(lengths)
    ids = sources(lengths, seed=seed)
    torch.set_num_threads(threads)
    among = NativeDecoder(packed, ids)
    torch.set_num_threads(1)
    apart = NativeDecoder(packed, ids[alone : alone + 1, : lengths[alone]])
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.full((len(lengths), 1), 2)
    for width in (3, 3, 2):
        torch.set_num_threads(threads)
        one = among(tokens)[alone]
        torch.set_num_threads(1)
        assert torch.equal(one, apart(tokens[alone : alone + 1])[0])
        parents = torch.randint(0, tokens.shape[1], (len(lengths), width), generator=draw)
        among.reorder(torch.arange(len(lengths)), parents)
        apart.reorder(torch.tensor([0]), parents[alone : alone + 1])
        tokens = torch.randint(4, V, (len(lengths), width), generator=draw)


def test_a_number_that_is_none_stays_one():
    """A broken weight must end as an error, not as a translation."""
    model = wide_model(N=1)
    with torch.no_grad():
        model.decoder_layers[0].feed_forward.W_1[3] = torch.nan
    decoder = NativeDecoder(PackedModel.of(model), sources([4], seed=1))
    assert decoder(torch.tensor([[2]])).isnan().all()


def test_tokens_that_are_none_are_refused_and_not_read():
    packed = PackedModel.of(wide_model(N=1))
    for bad in (-1, V):
        with pytest.raises(AssertionError, match="outside 0"):
            NativeDecoder(packed, torch.tensor([[5, bad]]))
        with pytest.raises(AssertionError, match="outside 0"):
            NativeDecoder(packed, torch.tensor([[5, 6]]))(torch.tensor([[bad]]))


def test_what_the_kernels_cannot_do_is_left_to_pytorch():
    class OtherNorm(PostNorm):
        pass

    assert PackedModel.of(Transformer(ModelConfig.tiny(vocab_size=V)).double().eval()) is None
    assert PackedModel.of(Transformer(ModelConfig.tiny(vocab_size=V)).bfloat16().eval()) is None
    other = Transformer(ModelConfig.tiny(vocab_size=V), Parts(residual=OtherNorm)).eval()
    assert PackedModel.of(other) is None


def reference(monkeypatch: pytest.MonkeyPatch, work, logits):
    """What `work` gives without the kernels, in float64: PyTorch's sums in float32 may be off by more than theirs."""
    with monkeypatch.context() as patch:
        patch.setattr(candidates, "kernels_for", lambda _x: None)
        patch.setattr("dragoman.search.greedy.kernels_for", lambda _x: None)
        return work(logits.double())


@pytest.mark.parametrize("vocabulary", [2, 17, 256, 257, 1000, 5003])
@pytest.mark.parametrize("coarse", [1, 4, 1000], ids=["all alike", "many equals", "few equals"])
def test_continuations_and_their_order_are_those_of_pytorch(monkeypatch, vocabulary, coarse):
    draw = torch.Generator().manual_seed(vocabulary + coarse)
    logits = (3 * torch.randn(9, 4, vocabulary, generator=draw) * coarse).round() / coarse
    logits[1, 2] = -torch.inf
    logits[1, 2, 0] = 1.0
    prefixes = -torch.rand(9, 4, generator=draw, dtype=torch.float64).mul(4).round()
    prefixes[3, 1:] = -torch.inf
    bans = Bans.of([0, min(3, vocabulary - 1)], vocab_size=vocabulary, device=torch.device("cpu"))

    def work(logits):
        return best_continuations(logits, prefixes, count=8, bans=bans)

    got, want = work(logits), reference(monkeypatch, work, logits)
    torch.testing.assert_close(got.values_BC, want.values_BC, rtol=1e-6, atol=1e-6)
    live = want.values_BC > -torch.inf
    assert torch.equal(got.parents_BC[live], want.parents_BC[live])
    assert torch.equal(got.tokens_BC[live], want.tokens_BC[live])

    def greedy(logits):
        return best_tokens(logits[:, 0], bans)

    (token, value), (wanted_token, wanted_value) = greedy(logits), reference(monkeypatch, greedy, logits)
    torch.testing.assert_close(value, wanted_value, rtol=1e-6, atol=1e-6)
    assert torch.equal(token[value > -torch.inf], wanted_token[value > -torch.inf])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_logits_that_are_no_distribution_are_refused(bad):
    bans = Bans.of([], vocab_size=40, device=torch.device("cpu"))
    logits = torch.zeros(3, 2, 40)
    if bad == -torch.inf:
        logits[1, 1] = bad
    else:
        logits[1, 1, 7] = bad
    prefixes = torch.zeros(3, 2, dtype=torch.float64)
    with pytest.raises(DragomanError, match="not finite") as caught:
        best_continuations(logits, prefixes, count=4, bans=bans)
    assert "[1]" in str(caught.value)
    prefixes[1, 1] = -torch.inf  # nobody asks about a dead prefix
    best_continuations(logits, prefixes, count=4, bans=bans)
