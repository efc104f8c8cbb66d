"""Each equation of the model equals the NumPy transcription of the text, in float64.

Paper: 3, 3.1, 3.2.1 (Eq. 1), 3.2.2, 3.2.3, 3.3 (Eq. 2), 3.4, 3.5, 5.3 (Eq. 3), 5.4, 6.1, Figure 1, Figure 2
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from paper import reference
from random_models import CONFIGS, build, configs, random_ids
from torch import Tensor, nn

from dragoman.model.attention import (
    MultiHeadAttention,
    attend,
    attend_fused,
    attend_written_out,
    attention_weights,
)
from dragoman.model.config import ModelConfig
from dragoman.model.embedding import Embedding, output_map
from dragoman.model.feed_forward import FeedForward
from dragoman.model.mask import causal_mask, padding_mask
from dragoman.model.position import SinusoidalPosition, sinusoids
from dragoman.model.residual import PostNorm
from dragoman.model.transformer import Transformer
from dragoman.search.length import length_penalty
from dragoman.training.loss import label_smoothed_loss
from dragoman.training.schedule import learning_rate

TOLERANCE = 1e-12


def array(tensor: Tensor) -> reference.Array:
    return tensor.detach().double().numpy()


def heads_of(attention: MultiHeadAttention) -> reference.Heads:
    """The paper's matrices out of the stored one: per head, d_model rows."""
    h, d_k, d_v = attention.h, attention.d_k, attention.d_v
    W = array(attention.W_QKV)
    Q, K, V = W[: h * d_k], W[h * d_k : 2 * h * d_k], W[2 * h * d_k :]
    return reference.Heads(
        W_Q=[Q[i * d_k : (i + 1) * d_k].T for i in range(h)],
        W_K=[K[i * d_k : (i + 1) * d_k].T for i in range(h)],
        W_V=[V[i * d_v : (i + 1) * d_v].T for i in range(h)],
        W_O=array(attention.W_O).T,
    )


def network_of(network: FeedForward) -> reference.Network:
    return reference.Network(
        array(network.W_1).T, array(network.b_1), array(network.W_2).T, array(network.b_2)
    )


def norm_of(residual: PostNorm) -> reference.Norm:
    return reference.Norm(array(residual.norm.weight), array(residual.norm.bias), residual.norm.eps)


def layer_of(layer: nn.Module) -> reference.Layer:
    attentions = [heads_of(part) for part in layer.children() if isinstance(part, MultiHeadAttention)]
    norms = [norm_of(part) for part in layer.children() if isinstance(part, PostNorm)]
    return reference.Layer(attentions, network_of(layer.feed_forward), norms)


def model_of(model: Transformer) -> reference.Model:
    config = model.config
    target = array(model.target_embedding.weight)
    return reference.Model(
        source_embedding=target if config.shared_embeddings else array(model.source_embedding.weight),
        target_embedding=target,
        output=target if config.tied_output else array(model.untied_output.weight),
        encoder=[layer_of(layer) for layer in model.encoder],
        decoder=[layer_of(layer) for layer in model.decoder],
    )


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("form", [attend, attend_written_out, attend_fused])
@pytest.mark.parametrize("causal", [False, True], ids=["unmasked", "causal"])
@pytest.mark.parametrize(("d_k", "d_v"), [(4, 4), (3, 7)])
def test_equation_1_is_scaled_dot_product_attention(form, causal, d_k, d_v):
    Q, K, V = random(2, 3, 5, d_k, seed=1), random(2, 3, 5, d_k, seed=2), random(2, 3, 5, d_v, seed=3)
    mask = causal_mask(5) if causal else None
    got = form(Q, K, V, mask)
    allowed = mask[0, 0].numpy() if causal else None
    for b in range(2):
        for i in range(3):
            want = reference.attention(array(Q[b, i]), array(K[b, i]), array(V[b, i]), allowed)
            np.testing.assert_allclose(array(got[b, i]), want, rtol=0, atol=TOLERANCE)


def test_the_weights_of_equation_1_with_padding_and_a_query_that_may_see_nothing():
    Q, K = random(2, 1, 3, 4, seed=4), random(2, 1, 5, 4, seed=5)
    mask = padding_mask(torch.tensor([[7, 7, 7, 0, 0], [0, 0, 0, 0, 0]]), 0)
    got = attention_weights(Q, K, mask)
    for b in range(2):
        allowed = np.tile(mask[b, 0, 0].numpy(), (3, 1))
        want = reference.attention_weights(array(Q[b, 0]), array(K[b, 0]), allowed)
        np.testing.assert_allclose(array(got[b, 0]), want, rtol=0, atol=TOLERANCE)
    assert (got[1] == 0).all()


@settings(max_examples=30)
@given(config=configs(), seed=st.integers(0, 2**20), cross=st.booleans())
def test_multi_head_attention_is_concat_of_heads(config, seed, cross):
    attention = build(config, seed=seed).decoder[0].cross_attention
    x, y = random(2, 3, config.d_model, seed=seed), random(2, 4, config.d_model, seed=seed + 1)
    got = attention(x, y) if cross else attention(x)
    for b in range(2):
        from_where = array(y[b]) if cross else array(x[b])
        want = reference.multi_head(array(x[b]), from_where, heads_of(attention))
        np.testing.assert_allclose(array(got[b]), want, rtol=0, atol=TOLERANCE)


@settings(max_examples=30)
@given(config=configs(), seed=st.integers(0, 2**20))
def test_equation_2_is_the_feed_forward_network(config, seed):
    network = build(config, seed=seed).encoder[0].feed_forward
    x = random(4, config.d_model, seed=seed)
    want = reference.feed_forward(array(x), network_of(network))
    np.testing.assert_allclose(array(network(x)), want, rtol=0, atol=TOLERANCE)


@settings(max_examples=30)
@given(config=configs(), seed=st.integers(0, 2**20))
def test_a_sublayer_is_normed_after_the_sum(config, seed):
    residual = build(config, seed=seed).encoder[0].residual_1
    x = random(1, 4, config.d_model, seed=seed)
    got = residual(x, lambda y: 3.0 * y.sin())
    want = reference.layer_norm(array(x[0] + 3.0 * x[0].sin()), norm_of(residual))
    # The distance to a mean is divided by the deviation, which may be small for two or four numbers.
    np.testing.assert_allclose(array(got[0]), want, rtol=1e-11, atol=1e-11)


def test_embeddings_are_scaled_by_the_root_of_the_width():
    embedding = Embedding(5, 12).double()
    nn.init.normal_(embedding.weight)
    got = embedding(torch.tensor([[4, 0, 4]]))
    want = [array(embedding.weight)[token] * math.sqrt(12) for token in (4, 0, 4)]
    np.testing.assert_allclose(array(got[0]), want, rtol=0, atol=TOLERANCE)


def test_the_output_map_is_not_scaled():
    x, E = random(2, 3, 4, seed=1), random(7, 4, seed=2)
    np.testing.assert_allclose(array(output_map(x, E)), array(x) @ array(E).T, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("d_model", [2, 6, 64, 512])
def test_positions_are_interleaved_sines_and_cosines(d_model):
    got = sinusoids(40, d_model)
    assert got.dtype == torch.float64
    np.testing.assert_allclose(array(got), reference.position(40, d_model), rtol=0, atol=TOLERANCE)


def test_wavelengths_run_from_two_pi_towards_ten_thousand_times_that():
    """3.5: "a geometric progression from 2 pi to 10000 * 2 pi"."""
    angles = torch.atan2(*sinusoids(2, 512)[1].view(-1, 2).T)
    wavelengths = 2 * math.pi / angles
    assert wavelengths[0] == pytest.approx(2 * math.pi)
    ratios = wavelengths[1:] / wavelengths[:-1]
    torch.testing.assert_close(ratios, ratios[0].expand_as(ratios), rtol=1e-9, atol=0)
    assert wavelengths[-1] * ratios[0] == pytest.approx(10000 * 2 * math.pi)


def test_the_module_adds_the_same_positions_rounded_to_its_format():
    position = SinusoidalPosition(16)
    got = position(torch.zeros(1, 600, 16))
    torch.testing.assert_close(
        got[0], torch.from_numpy(reference.position(600, 16)).float(), rtol=0, atol=1e-7
    )


def assert_model_equals_reference(config: ModelConfig, seed: int, sources: list[int], targets: list[int]):
    source_ids = random_ids(config.source_rows, sources, seed=seed)
    target_ids = random_ids(config.vocab_size, targets, seed=seed + 1)
    assert_equal_on(build(config, seed=seed), source_ids, target_ids)


def assert_equal_on(model: Transformer, source_ids: Tensor, target_ids: Tensor):
    config, paper = model.config, model_of(model)
    got = array(model(source_ids, target_ids))
    for b in range(len(source_ids)):
        want = reference.logits(source_ids[b].tolist(), target_ids[b].tolist(), paper, config.pad_id)
        np.testing.assert_allclose(got[b], want, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_whole_model_equals_the_text(name):
    assert_model_equals_reference(CONFIGS[name], seed=7, sources=[5, 2, 1], targets=[3, 6, 1])


@settings(max_examples=15)
@given(
    sources=st.lists(st.integers(1, 7), min_size=1, max_size=3),
    seed=st.integers(0, 2**20),
    name=st.sampled_from(sorted(CONFIGS)),
    data=st.data(),
)
def test_the_whole_model_equals_the_text_for_any_lengths(sources, seed, name, data):
    targets = data.draw(st.lists(st.integers(1, 7), min_size=len(sources), max_size=len(sources)))
    assert_model_equals_reference(CONFIGS[name], seed, sources, targets)


def test_a_source_of_nothing_but_padding_gives_zeros_from_the_attention_over_it():
    assert_model_equals_reference(CONFIGS["odd_heads"], seed=2, sources=[0, 3], targets=[2, 2])


def test_a_pad_id_other_than_zero():
    config = ModelConfig.model_validate({**CONFIGS["paper"].model_dump(), "pad_id": 5})
    source_ids, target_ids = torch.tensor([[0, 3, 5, 7, 5]]), torch.tensor([[2, 0, 5]])
    assert_equal_on(build(config), source_ids, target_ids)


@settings(max_examples=50)
@given(
    step=st.integers(1, 400_000),
    d_model=st.sampled_from([128, 512, 1024]),
    warmup_steps=st.sampled_from([1, 400, 4000]),
)
def test_equation_3_is_the_learning_rate(step, d_model, warmup_steps):
    got = learning_rate(step, d_model=d_model, warmup_steps=warmup_steps)
    assert got == pytest.approx(reference.learning_rate(step, d_model, warmup_steps), rel=1e-14)


@settings(max_examples=30)
@given(
    eps_ls=st.sampled_from([0.0, 0.1, 0.2]),
    V=st.integers(2, 9),
    n=st.integers(1, 5),
    seed=st.integers(0, 2**20),
)
def test_label_smoothing_is_that_of_5_4(eps_ls, V, n, seed):
    logits = 3 * random(n, V, seed=seed)
    targets = torch.randint(0, V, (n,), generator=torch.Generator().manual_seed(seed))
    got = label_smoothed_loss(logits, targets, eps_ls, pad_id=V)
    rows = list(zip(array(logits), targets.tolist(), strict=True))
    want = sum(reference.smoothed_loss(row, target, eps_ls) for row, target in rows)
    assert got.smoothed.item() == pytest.approx(want, rel=TOLERANCE, abs=TOLERANCE)
    assert got.nll.item() == pytest.approx(
        sum(reference.smoothed_loss(*row, 0.0) for row in rows), rel=TOLERANCE
    )


@given(n=st.integers(1, 500), alpha=st.floats(-1, 2))
def test_the_length_penalty_is_that_of_6_1(n, alpha):
    assert length_penalty(n, alpha) == pytest.approx(reference.length_penalty(n, alpha), rel=1e-14)


class TestTheReference:
    """The transcription is itself held to numbers that can be worked out by hand."""

    def test_softmax(self):
        np.testing.assert_allclose(reference.softmax(np.log([1.0, 3.0])), [0.25, 0.75])

    def test_learning_rate_peaks_at_warmup(self):
        rates = [reference.learning_rate(step, 512) for step in (1, 3999, 4000, 4001, 100_000)]
        assert rates[2] == pytest.approx(512**-0.5 * 4000**-0.5) == max(rates)
        assert rates[0] == pytest.approx(rates[2] / 4000)
        assert rates[4] == pytest.approx(rates[2] / 5)

    def test_length_penalty(self):
        assert reference.length_penalty(1, 0.6) == 1.0
        assert reference.length_penalty(7, 1.0) == 2.0
        assert reference.length_penalty(7, 0.0) == 1.0

    def test_smoothing_is_least_at_the_smoothed_distribution(self):
        wanted = np.array([0.05, 0.9, 0.05])
        least = reference.smoothed_loss(np.log(wanted), 1, 0.1)
        assert least == pytest.approx(-(wanted * np.log(wanted)).sum())
        assert reference.smoothed_loss(np.log([0.04, 0.92, 0.04]), 1, 0.1) > least
        assert reference.smoothed_loss(np.zeros(3), 0, 0.0) == pytest.approx(math.log(3))
