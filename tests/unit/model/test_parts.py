"""The parts of the paper, and that another set of them takes their places.

Paper: 3
"""

from __future__ import annotations

import dataclasses

import pytest
import torch
from random_models import CONFIGS
from torch import nn

from dragoman.model.attention import MultiHeadAttention
from dragoman.model.embedding import Embedding
from dragoman.model.feed_forward import FeedForward
from dragoman.model.incremental import IncrementalDecoder
from dragoman.model.parts import PAPER, Parts
from dragoman.model.position import SinusoidalPosition
from dragoman.model.residual import PostNorm
from dragoman.model.transformer import Transformer

PUBLISHED = {
    "attention": MultiHeadAttention,
    "feed_forward": FeedForward,
    "residual": PostNorm,
    "encoder_start": nn.Identity,
    "stack_end": nn.Identity,
    "embedding": Embedding,
    "position": SinusoidalPosition,
}


def test_the_papers_parts():
    found = {place.name: getattr(PAPER, place.name) for place in dataclasses.fields(PAPER)}
    assert found == PUBLISHED | dict.fromkeys(("decoder_attention", "cross_attention", "output"))
    assert Parts() == PAPER


def test_they_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PAPER.residual = nn.Identity


def kinds(model: nn.Module) -> dict[str, int]:
    """How many modules there are of each class."""
    names = [type(module).__name__ for module in model.modules()]
    return {name: names.count(name) for name in names}


def test_a_model_is_made_of_them_and_of_nothing_else():
    N = CONFIGS["untied"].N
    assert kinds(Transformer(CONFIGS["untied"])) == {
        "Transformer": 1,
        "Embedding": 3,
        "SinusoidalPosition": 1,
        "ModuleList": 2,
        "EncoderLayer": N,
        "DecoderLayer": N,
        "MultiHeadAttention": 3 * N,
        "FeedForward": 2 * N,
        "PostNorm": 5 * N,
        "LayerNorm": 5 * N,
        "Identity": 3,  # what there is before and after the stacks
    }


@pytest.mark.parametrize("place", PUBLISHED)
def test_each_can_be_replaced_by_one_of_its_own_signature(place):
    published = PUBLISHED[place]
    other = type("Other", (published,), {})
    config = CONFIGS["paper"]
    model = Transformer(config, dataclasses.replace(PAPER, **{place: other})).eval()
    counted, plain = kinds(model), kinds(Transformer(config))
    everywhere = plain[published.__name__]
    replaced = {"encoder_start": 1, "stack_end": 2}.get(place, everywhere)  # these two are of one class
    assert counted["Other"] == replaced
    assert counted.get(published.__name__, 0) == everywhere - replaced
    ids = torch.tensor([[3, 4, 5]])
    torch.testing.assert_close(model(ids, ids), Transformer(config).eval()(ids, ids))


def test_the_three_attentions_can_differ():
    class InDecoder(MultiHeadAttention):
        pass

    class Across(MultiHeadAttention):
        pass

    parts = Parts(decoder_attention=InDecoder, cross_attention=Across)
    model = Transformer(CONFIGS["paper"], parts)
    for layer in model.encoder:
        assert type(layer.self_attention) is MultiHeadAttention
    for layer in model.decoder:
        assert (type(layer.self_attention), type(layer.cross_attention)) == (InDecoder, Across)


def test_what_ends_a_stack_is_applied_once_to_its_output_also_step_by_step():
    class Doubled(nn.Module):
        def __init__(self, _shape) -> None:
            super().__init__()

        def forward(self, x):
            return 2.0 * x

    config, ids = CONFIGS["paper"], torch.tensor([[3, 4, 5]])
    plain, model = Transformer(config).eval(), Transformer(config, Parts(stack_end=Doubled)).eval()
    torch.testing.assert_close(model.encode(ids), 2.0 * plain.encode(ids))
    memory = plain.encode(ids)
    torch.testing.assert_close(model.decode_hidden(ids, memory), 2.0 * plain.decode_hidden(ids, memory))
    first = IncrementalDecoder(model, ids)(ids[:, :1])
    torch.testing.assert_close(first, model(ids, ids[:, :1]).detach())
