"""What is measured of models of one stack: what departs in a part is found there, and what has no meaning is left out.

Paper: 3.1, 3.2.3
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from departing import ONE_STACK

from dragoman.fidelity import one_stack
from dragoman.fidelity.choices import CHOICES
from dragoman.fidelity.measure import measure
from dragoman.model.config import ModelShape
from dragoman.model.parts import PAPER
from dragoman.recipe import DepartureSection
from dragoman.recipes.named import lm, masked_lm
from dragoman.variants.block_sinusoids import BlockSinusoidalPosition
from dragoman.variants.departures import DecoderOnly, EncoderOnly, stack_of
from dragoman.variants.parts import parts_of

SHAPE = ModelShape(N=1, d_model=32, d_ff=40, h=4)
SUB_LAYERS = {
    "lm": "decoder: self-attention, feed-forward",
    "masked-lm": "encoder: self-attention, feed-forward",
}


@pytest.mark.parametrize("recipe", [lm(), masked_lm()], ids=lambda recipe: recipe.name)
def test_the_parts_are_the_papers_and_the_stack_is_said_to_be_alone(recipe):
    found = measure(recipe)
    [stack] = recipe.departures.architecture
    architecture = [f for f in found.departures if f.level == "architecture"]
    assert [(f.choice, f.here) for f in architecture] == [
        ("sub-layers", SUB_LAYERS[recipe.name]),
        (stack.name, stack.source_and_numbers),
    ]
    assert [f.choice for f in found.departures if f.level == "recipe"] == ["optimizer.cooldown"]
    banner = found.banner(recipe.name)
    assert f"{stack.name} of {stack.source}" in banner
    assert "(measured: sub-layers)" in banner


@pytest.mark.parametrize(
    ("recipe", "there", "not_there"),
    [
        (
            lm(),
            {"decoder input", "start token", "length penalty", "search.beam_size", "batch.target_tokens"},
            {"BLEU", "batch.source_tokens", "search.max_extra", "subwords.joint"},
        ),
        (
            masked_lm(),
            {"masks", "batch.source_tokens", "training.eps_ls"},
            {"BLEU", "decoder input", "start token", "length penalty", "end of search", "search.alpha"},
        ),
    ],
    ids=["lm", "masked-lm"],
)
def test_what_has_no_meaning_is_left_out(recipe, there, not_there):
    names = {f.choice for f in measure(recipe).findings}
    assert there <= names
    assert not names & not_there
    assert len(names & {choice.name for choice in CHOICES}) >= 24


@pytest.mark.parametrize("stack", [DecoderOnly(), EncoderOnly()])
def test_every_choice_has_an_answer_and_every_answer_a_choice(stack):
    answers = one_stack.architecture(SHAPE, PAPER, stack)
    named = {choice.name for choice in one_stack.choices_of(stack) if choice.level == "architecture"}
    assert set(answers) == named
    expected = {choice.name: choice.expected for choice in one_stack.choices_of(stack)}
    assert {name for name in answers if answers[name] != expected[name]} == {"sub-layers"}


DEPARTING = {
    "decoder_only of today": {
        *("norm place", "norm formula", "norm constants", "final norms", "heads", "feed-forward"),
        *("position place", "sinusoid layout", "sinusoid wavelengths"),
    },
    "decoder_only and more": {
        *("attention", "heads", "attention biases", "output map", "position place", "dropout places"),
        *("sinusoid layout", "sinusoid wavelengths"),
    },
    "encoder_only and more": {
        *("attention biases", "feed-forward", "output map", "dropout places"),
        *("sinusoid layout", "sinusoid wavelengths"),
    },
}


@pytest.mark.parametrize("name", DEPARTING)
def test_departures_are_found_in_the_parts(name):
    departures = ONE_STACK[name]
    stack = stack_of(departures)
    answers = one_stack.architecture(SHAPE, parts_of(departures), stack)
    expected = {choice.name: choice.expected for choice in one_stack.choices_of(stack)}
    found = {choice for choice in answers if answers[choice] != expected[choice]} - {
        "sub-layers",
        "initializer",
    }
    assert DEPARTING[name] <= found
    recipe = (lm() if stack == DecoderOnly() else masked_lm()).with_changes(["model.P_drop=0.0"])
    recipe = recipe.model_copy(update={"departures": DepartureSection(architecture=departures)})
    told = measure(recipe).banner(recipe.name)
    assert all(f"{d.name} of {d.source}" in told for d in departures)


def test_parts_that_nobody_asked_for_are_seen():
    parts = replace(PAPER, position=lambda d_model: BlockSinusoidalPosition(d_model, "paper"))
    answers = one_stack.architecture(SHAPE, parts, DecoderOnly())
    assert answers["sinusoid layout"] == "all sines, then all cosines"


def test_an_output_map_of_its_own_is_seen():
    shape = SHAPE.model_copy(update={"tied_output": False})
    for stack in (DecoderOnly(), EncoderOnly()):
        assert one_stack.architecture(shape, PAPER, stack)["embedding tying"] == "two matrices"
