"""What is inside the stacks is told from what others have there, each by its own name.

Paper: 3.1, 3.2.1 (Eq. 1), 3.2.2, 3.2.3, 3.3 (Eq. 2)
"""

from __future__ import annotations

from functools import partial

import other_parts
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman.fidelity import layers
from dragoman.fidelity.choices import ARCHITECTURE
from dragoman.fidelity.small import small_model
from dragoman.model import transformer
from dragoman.model.config import ModelShape
from dragoman.model.layers import DecoderLayer
from dragoman.model.parts import PAPER, Parts
from dragoman.model.residual import layer_norm
from dragoman.model.transformer import Transformer

EXPECTED = {choice.name: choice.expected for choice in ARCHITECTURE}
SHAPE = ModelShape(d_model=64, h=4)
PROBES = {
    "sub-layers": layers.sub_layers,
    "norm place": layers.norm_place,
    "norm formula": layers.norm_formula,
    "norm constants": layers.norm_constants,
    "final norms": layers.final_norms,
    "attention": layers.attention,
    "heads": layers.heads,
    "attention biases": layers.attention_biases,
    "masks": layers.masks,
    "feed-forward": layers.feed_forward,
}


def built(parts: Parts = PAPER, shape: ModelShape = SHAPE) -> Transformer:
    return small_model(shape, parts, P_drop=0.1)


def differing(model: Transformer) -> dict[str, str]:
    """Answers that are not the paper's."""
    answers = {name: probe(model) for name, probe in PROBES.items()}
    return {name: answer for name, answer in answers.items() if answer != EXPECTED[name]}


@pytest.mark.parametrize("h", [1, 2, 3, 8, 16, 100])
def test_the_papers_parts_are_the_papers_whatever_the_heads(h):
    assert differing(built(shape=ModelShape(d_model=8 * h if h > 1 else 8, h=h))) == {}


@settings(max_examples=10)
@given(seed=st.integers(0, 2**20), shared=st.booleans(), tied=st.booleans())
def test_no_weights_make_it_another_model(seed, shared, tied):
    model = built(shape=ModelShape(d_model=64, h=4, shared_embeddings=shared, tied_output=tied))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(generator=generator)
    assert differing(model) == {}


OTHERS = [
    (Parts(residual=other_parts.PreNorm), {"norm place": "before the sub-layer"}),
    (Parts(residual=other_parts.SandwichNorm), {"norm place": "before the sub-layer and after the sum"}),
    (Parts(residual=other_parts.InnerNorm), {"norm place": "after the sub-layer, before the sum"}),
    (Parts(residual=other_parts.Weighted), {"norm place": "elsewhere (Weighted)"}),
    (
        Parts(residual=other_parts.NoNorm),
        {"norm place": "none", "norm formula": "none", "norm constants": "none"},
    ),
    (
        Parts(residual=other_parts.with_norm(other_parts.RootMeanSquare)),
        {"norm formula": "root mean square 1 over the width", "norm constants": "epsilon 1e-06, a gain"},
    ),
    (
        Parts(residual=other_parts.with_norm(partial(nn.LayerNorm, eps=1e-5))),
        {"norm constants": "epsilon 1e-05, gain and bias"},
    ),
    (
        Parts(residual=other_parts.with_norm(partial(nn.LayerNorm, eps=1e-6, elementwise_affine=False))),
        {"norm constants": "epsilon 1e-06, no gain"},
    ),
    (Parts(attention=other_parts.Unscaled), {"attention": "softmax(Q K^T) V"}),
    (Parts(attention=other_parts.Biased), {"attention biases": "some"}),
    (Parts(attention=other_parts.OneKeyHead), {"heads": "those of OneKeyHead"}),
    (Parts(attention=other_parts.Turned), {}),  # its positions are told apart in test_inputs
    (Parts(feed_forward=other_parts.Smooth), {"feed-forward": "another (Smooth)"}),
    (Parts(feed_forward=other_parts.Gated), {"feed-forward": "another (Gated)"}),
]


@pytest.mark.parametrize(("parts", "answers"), OTHERS, ids=[", ".join(answers) for _, answers in OTHERS])
def test_other_parts_are_told_by_what_they_compute(parts, answers):
    assert differing(built(parts)) == answers


def test_a_norm_of_another_deviation():
    found = differing(built(Parts(residual=other_parts.with_norm(other_parts.OwnDeviation))))
    assert found["norm formula"] == "mean 0, deviation 1 of d_model - 1 over the width"
    assert set(found) == {"norm formula", "norm constants"}


def test_one_part_among_many_that_is_another():
    model = other_parts.replaced(built(), "decoder.1.residual_2", other_parts.PreNorm(built().config).eval())
    assert differing(model) == {"norm place": "after the sum / before the sub-layer"}


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_a_norm_at_the_end_of_one_stack(monkeypatch, stack):
    name = {"encoder": "encode", "decoder": "decode_hidden"}[stack]
    ours = getattr(Transformer, name)
    monkeypatch.setattr(Transformer, name, lambda self, *given: layer_norm(16).double()(ours(self, *given)))
    assert differing(built()) == {"final norms": f"after the {stack}"}


def test_a_decoder_that_sees_the_future(monkeypatch):
    def everything(length: int, device: torch.device | None = None) -> Tensor:
        return torch.ones(1, 1, length, length, dtype=torch.bool)

    monkeypatch.setattr(transformer, "causal_mask", everything)
    assert differing(built()) == {
        "masks": "targets see others than earlier ones, sources all tokens",
    }


def test_an_encoder_that_sees_padding(monkeypatch):
    monkeypatch.setattr(
        transformer, "padding_mask", lambda ids, pad_id: torch.ones_like(ids, dtype=torch.bool)[:, None, None]
    )
    assert differing(built()) == {"masks": "targets see earlier ones, sources others than all tokens"}


def test_sub_layers_in_another_order(monkeypatch):
    def forward(self: DecoderLayer, x: Tensor, memory: Tensor, mask: Tensor, source_mask: Tensor) -> Tensor:
        x = self.residual_1(x, lambda y: self.self_attention(y, mask=mask))
        x = self.residual_2(x, self.feed_forward)
        return self.residual_3(x, lambda y: self.cross_attention(y, memory, source_mask))

    monkeypatch.setattr(DecoderLayer, "forward", forward)
    assert differing(built()) == {
        "sub-layers": "encoder: self-attention, feed-forward; decoder: self-attention, feed-forward, cross-attention"
    }
