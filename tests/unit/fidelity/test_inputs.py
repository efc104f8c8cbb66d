"""What goes into the stacks is told from what others have there: embeddings, positions, dropout, initial weights.

Paper: 3.4, 3.5, 5.4
"""

from __future__ import annotations

from functools import partial
from typing import Any

import other_parts
import pytest
import torch
from torch import Tensor, nn

from dragoman.data import batches
from dragoman.fidelity import inputs
from dragoman.fidelity.choices import ARCHITECTURE
from dragoman.fidelity.small import small_model
from dragoman.model import transformer
from dragoman.model.attention import MultiHeadAttention
from dragoman.model.config import ModelShape
from dragoman.model.embedding import Embedding
from dragoman.model.parts import PAPER, Parts
from dragoman.model.transformer import Transformer
from dragoman.text.subwords import Subwords
from dragoman.variants.departures import EndStart, OutputBias, PaddingStart, TargetSpace, ZeroStart
from dragoman.variants.parts import parts_of

EXPECTED = {choice.name: choice.expected for choice in ARCHITECTURE}
SHAPE = ModelShape(d_model=64, h=4)
PROBES = {
    "embedding scale": inputs.embedding_scale,
    "encoder input": inputs.encoder_input,
    "embedding tying": inputs.embedding_tying,
    "output map": inputs.output_map,
    "position place": inputs.position_place,
    "sinusoid layout": inputs.sinusoid_layout,
    "sinusoid wavelengths": inputs.sinusoid_wavelengths,
    "initializer": inputs.initializer,
    "start token": inputs.start_token,
}


def built(parts: Parts = PAPER, *, P_drop: float = 0.1, **sizes: Any) -> Transformer:
    return small_model(SHAPE.model_copy(update=sizes), parts, P_drop=P_drop)


def differing(model: Transformer) -> dict[str, str]:
    """Answers that are not the paper's."""
    answers = {name: probe(model) for name, probe in PROBES.items()}
    return {name: answer for name, answer in answers.items() if answer != EXPECTED[name]}


@pytest.mark.parametrize("h", [1, 2, 3, 8, 16])
def test_the_papers_parts_are_the_papers_whatever_the_heads(h):
    assert differing(built(h=h)) == {}
    assert inputs.dropout_places(built(h=h, P_drop=0.5)) == EXPECTED["dropout places"]


BLOCKS = "all sines, then all cosines"
T2T = "2 pi 10000^(i/(d_model/2 - 1))"
NOT_SINUSOIDS = {"sinusoid layout": "no sinusoids", "sinusoid wavelengths": "no sinusoids"}


def flipped(length: int, d_model: int) -> Tensor:
    """Cosine and sine in turn."""
    return inputs_pairs(length, d_model).flip(-1).flatten(1)


def inputs_pairs(length: int, d_model: int) -> Tensor:
    return PAPER.position(d_model).rows(length).double().view(length, -1, 2)


def shifted(length: int, d_model: int) -> Tensor:
    """Positions counted from 1."""
    return PAPER.position(d_model).rows(length + 1)[1:]


@pytest.mark.parametrize(
    ("make", "answers"),
    [
        (other_parts.sines, {"sinusoid layout": BLOCKS}),
        (
            partial(other_parts.sines, cosines_first=True),
            {"sinusoid layout": "all cosines, then all sines"},
        ),
        (
            lambda n, d: other_parts.sines(n, d, steps=d // 2 - 1),
            {"sinusoid layout": BLOCKS, "sinusoid wavelengths": T2T},
        ),
        (flipped, {"sinusoid layout": "cosine and sine in turn"}),
        (
            lambda n, d: other_parts.sines(n, d, steps=d),
            {"sinusoid layout": BLOCKS, "sinusoid wavelengths": "from 6.28 to 353"},
        ),
        (other_parts.noise, NOT_SINUSOIDS),
        (shifted, NOT_SINUSOIDS),
        (lambda n, d: torch.zeros(n, d), {"position place": "none", **NOT_SINUSOIDS}),
    ],
)
def test_tables_of_positions(make, answers):
    assert differing(built(Parts(position=other_parts.with_table(make)))) == answers


def test_positions_in_attention_are_seen_beside_those_that_are_added():
    assert differing(built(Parts(attention=other_parts.Turned))) == {
        "position place": "added to the embeddings and in attention"
    }


def test_positions_that_are_not_added():
    class Multiplied(other_parts.SinusoidalPosition):
        def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
            return x * self.rows(x.shape[1]) + self.rows(x.shape[1])

    found = differing(built(Parts(position=Multiplied)))
    assert found == {"position place": "at the bottom, not added"}


@pytest.mark.parametrize(
    ("shared", "tied", "said"),
    [
        (True, True, "one matrix for source, target and output"),
        (True, False, "one matrix for source and target only"),
        (False, True, "one matrix for target and output only"),
        (False, False, "three matrices"),
    ],
)
def test_which_matrices_are_one(shared, tied, said):
    assert inputs.embedding_tying(built(shared_embeddings=shared, tied_output=tied)) == said


def test_matrices_that_are_equal_are_not_one():
    model = built(tied_output=False)
    with torch.no_grad():
        model.untied_output.weight.copy_(model.target_embedding.weight)
    assert inputs.embedding_tying(model) == "one matrix for source and target only"


def test_embeddings_as_they_are():
    found = differing(built(Parts(embedding=other_parts.PlainEmbedding)))
    assert found == {"embedding scale": "none"}


def test_a_scale_of_another_number_and_none_that_is_one():
    model = built()
    model.target_embedding.scale = 3.0
    assert inputs.embedding_scale(model) == "3"
    assert inputs.embedding_scale(built(Parts(embedding=other_parts.ZeroStart))) == "sqrt(d_model)"

    class Squared(Embedding):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids).square()

    assert inputs.embedding_scale(built(Parts(embedding=Squared))) == "no one factor"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda logits: logits + torch.arange(logits.shape[-1]), "x E^T and a bias"),
        (lambda logits: logits * 0.25, "x E^T scaled"),
        (lambda logits: logits.tanh(), "another"),
    ],
)
def test_output_maps(monkeypatch, change, said):
    ours = transformer.output_map
    monkeypatch.setattr(transformer, "output_map", lambda x, weight: change(ours(x, weight)))
    assert differing(built()) == {"output map": said}


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (
            Parts(feed_forward=other_parts.DroppedInside),
            "sub-layer outputs, embedding + position, feed-forward",
        ),
        (Parts(residual=other_parts.DroppedSum), "sums of sub-layers, embedding + position"),
        (Parts(residual=other_parts.PreNorm), "sub-layer outputs, embedding + position"),
    ],
)
def test_places_of_dropout(parts, said):
    assert inputs.dropout_places(built(parts, P_drop=0.5)) == said


def test_no_dropout_is_no_place():
    assert inputs.dropout_places(built(P_drop=0.0)) == "none"


def test_dropout_of_the_embedding_alone_or_of_one_stack_alone(monkeypatch):
    model = built(P_drop=0.5)

    def alone(self: Transformer, embedded: Tensor, positions: Tensor | None) -> Tensor:
        return self.position(transformer.dropout(embedded, 0.5, self.training), positions)

    ours = Transformer._embed

    def of_source(self: Transformer, embedded: Tensor, positions: Tensor | None) -> Tensor:
        return (ours if embedded.shape[1] == 32 else none)(self, embedded, positions)

    def none(self: Transformer, embedded: Tensor, positions: Tensor | None) -> Tensor:
        return self.position(embedded, positions)

    said = {}
    for embed in (alone, of_source, none):
        monkeypatch.setattr(Transformer, "_embed", embed)
        said[embed.__name__] = inputs.dropout_places(model)
    assert said == {
        "alone": "sub-layer outputs, embedding",
        "of_source": "sub-layer outputs, embedding + position of the encoder",
        "none": "sub-layer outputs",
    }


@pytest.mark.parametrize("P_drop", [0.0, 0.1, 0.3, 0.5])
def test_how_much_is_dropped(P_drop):
    assert inputs.dropped_share(built(P_drop=P_drop)) == pytest.approx(P_drop, abs=0.005)


@pytest.mark.parametrize("change", ["normal", "smaller", "bias", "embedding"])
def test_initial_weights(change):
    model = built()
    with torch.no_grad():
        if change == "normal":
            nn.init.xavier_normal_(model.encoder[0].feed_forward.W_1)
        elif change == "smaller":
            model.decoder[1].cross_attention.W_O.mul_(0.5)
        elif change == "bias":
            model.encoder[0].feed_forward.b_1.uniform_()
        else:
            model.target_embedding.weight.uniform_(-0.4, 0.4)
    assert differing(model) == {"initializer": "another"}


@pytest.mark.parametrize("place", ["encoder.0.self_attention", "decoder.1.cross_attention"])
def test_projections_by_their_own_sizes_are_another_initializer(place):
    """Glorot's bound of a matrix alone is another than that of the block tensor2tensor stored it in."""
    model = built()
    attention = model.get_submodule(place)
    assert isinstance(attention, MultiHeadAttention)
    with torch.no_grad():
        nn.init.xavier_uniform_(attention.matrices()[1])
    assert differing(model) == {"initializer": "another"}


@pytest.mark.parametrize(
    ("departures", "found"),
    [
        ((ZeroStart(),), {"start token": "a zero vector"}),
        ((EndStart(),), {"start token": "EOS, an ordinary row"}),
        (
            (PaddingStart(), OutputBias()),
            {"start token": "padding, an ordinary row", "output map": "x E^T and a bias"},
        ),
        ((TargetSpace(),), {"encoder input": "embedding + position + a vector"}),
    ],
)
def test_what_departures_make_of_inputs(departures, found):
    assert differing(built(parts_of(departures))) == found


def test_more_than_a_vector_on_the_sources():
    model = built(Parts(encoder_start=lambda shape: nn.Linear(shape.d_model, shape.d_model)))
    assert inputs.encoder_input(model) == "embedding + position + more"


def test_the_first_token(monkeypatch):
    assert inputs.decoder_input() == EXPECTED["decoder input"]
    assert differing(built(Parts(embedding=other_parts.ZeroStart))) == {"start token": "a zero vector"}
    monkeypatch.setattr(Subwords, "BOS_ID", Subwords.PAD_ID)
    assert differing(built()) == {"start token": "padding, an ordinary row"}


def test_a_target_that_is_not_shifted(monkeypatch):
    ours = batches.make_batch

    def unshifted(*given: Any) -> Any:
        batch = ours(*given)
        return type(batch)(**{**vars(batch), "target_input_ids": batch.target_output_ids})

    monkeypatch.setattr(inputs, "make_batch", unshifted)
    assert inputs.decoder_input() == "another"
