"""I02: as many come out as go in, in order, whatever they are; I28: by every way in."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from command_line import done
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_runs import SOURCE_WORDS, tiny_facts, write_random_bundle

from dragoman.text.lines import read_units
from dragoman.text.normalize import is_blank
from dragoman.translator import Translator

ODD = [
    "",
    " ",
    "\t",
    "\u3000",
    "\u200b",
    "\x00",
    "\r",
    "a\rb",
    "\x0b",
    "\x1c\x1d",
    "\x85",
    "x\u2028y",
    "\u2029",
    "\ufeff",
    "\u2581",
    "</s>",
    "<pad> <unk>",
    "\U0001f600",
    "e\u0301" * 30,
    "ZWJ\u200d",
    "&amp; <b>",
    "%s {0} \\n",
    "a" * 300,
    "word " * 60,
]


def odd_unit(draw: random.Random) -> str:
    """Plain words, odd ones, or any characters at all."""
    kind = draw.random()
    if kind < 0.5:
        return " ".join(draw.choice(SOURCE_WORDS) for _ in range(draw.choice((1, 2, 3, 5, 8))))
    if kind < 0.7:
        return draw.choice(ODD)
    points = [
        draw.choice(
            (draw.randrange(0x20, 0x7F), draw.randrange(0x80, 0xD800), draw.randrange(0xE000, 0x110000))
        )
    ]
    points += [draw.randrange(1, 0xD800) for _ in range(draw.randrange(6))]
    return "".join(map(chr, points)).replace("\n", " ")


def odd_units(count: int, *, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [odd_unit(draw) for _ in range(count)]


@pytest.fixture(scope="module")
def model(corpus, tmp_path_factory) -> Path:
    return write_random_bundle(tmp_path_factory.mktemp("model") / "m", tiny_facts(corpus))


@pytest.fixture(scope="module")
def translator(model) -> Translator:
    return Translator.load(model)


def check(units: Sequence[str], found: Sequence[translator_module.Translation]) -> None:
    assert [t.source for t in found] == list(units)
    for unit, translation in zip(units, found, strict=True):
        assert "\n" not in translation.text
        assert "\r" not in translation.text
        assert is_blank(unit) == (translation.parts == 0)
        assert not is_blank(unit) or translation.text == ""


@pytest.mark.parametrize("count", [2_000, pytest.param(50_000, marks=pytest.mark.slow)])
@pytest.mark.timeout(1_800)
def test_random_units_through_a_model(translator, count):
    units = odd_units(count, seed=count)
    check(units, translator.translate(units, beam_size=2, max_extra=2))


class EndsAtOnce:
    """A step function that ends every hypothesis with its second token, and costs nothing."""

    def __init__(self, model, source_ids) -> None:
        self.vocab_size = model.config.vocab_size

    def __call__(self, tokens_BK):
        logits = torch.zeros(*tokens_BK.shape, self.vocab_size)
        logits[..., 1 if tokens_BK.flatten()[0] != 2 else 10] = 20.0
        return logits

    def reorder(self, sentences_B, parents_BK) -> None:
        pass


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.timeout(1_800)
def test_random_units_through_a_stub(translator, monkeypatch, count):
    translator = replace(translator, engine="exact")  # which asks for a step function
    monkeypatch.setattr(Translator, "_decoder", lambda self, ids: EndsAtOnce(self.model, ids))
    seen = 0
    for seed in range(count // 10_000):
        units = odd_units(10_000, seed=seed)
        found = translator.translate(units, beam_size=1)
        check(units, found)
        assert len({t.text for t in found if t.parts == 1}) == 1
        seen += len(found)
    assert seen == count


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    units=st.lists(
        st.sampled_from(ODD) | st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=9),
        max_size=8,
    ),
    last_line_ends=st.booleans(),
)
def test_a_file_a_pipe_and_python_give_the_same(model, translator, tmp_path, units, last_line_ends):
    """I28."""
    text = "\n".join(units) + ("\n" if units and last_line_ends else "")
    file = tmp_path / "in.txt"
    file.write_bytes(text.encode())
    by_rule = list(read_units(file))
    wanted = [t.text for t in translator.translate(by_rule, beam_size=1)]
    command = ("translate", model, "--beam-size", 1)
    assert done(*command, file).lines == wanted
    assert done(*command, stdin=text.encode()).lines == wanted
    assert [record["text"] for record in done(*command, file, "--json").records] == wanted
