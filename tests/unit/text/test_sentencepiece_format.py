"""Reading facts out of a `.model`: against models trained with known settings, and against damage."""

from __future__ import annotations

import io
from typing import Any

import pytest
import sentencepiece

from dragoman.text.sentencepiece_format import ModelFacts, read_facts, read_whole_pieces

TEXT = ["the quick brown fox jumps over the lazy dog"] * 3


def model(**options: Any) -> bytes:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT),
        model_writer=written,
        minloglevel=5,
        **({"vocab_size": 40, "hard_vocab_limit": False} | options),
    )
    return written.getvalue()


@pytest.mark.parametrize("kind", ["unigram", "bpe", "word", "char"])
def test_kind(kind: str) -> None:
    assert read_facts(model(model_type=kind)).kind == kind


def test_defaults_of_the_format() -> None:
    assert read_facts(b"") == ModelFacts("unigram", "", adds_space=True, space_is_suffix=False)
    assert read_facts(model()) == ModelFacts("unigram", "nmt_nfkc", adds_space=True, space_is_suffix=False)


def test_edges_and_normalization() -> None:
    facts = read_facts(
        model(add_dummy_prefix=False, treat_whitespace_as_suffix=True, normalization_rule_name="identity")
    )
    assert facts == ModelFacts("unigram", "identity", adds_space=False, space_is_suffix=True)


def test_whole_pieces() -> None:
    assert read_whole_pieces(model()) == []
    both = model(user_defined_symbols=["<mask>", "\u00e4x"], control_symbols=["<de>"])
    assert read_whole_pieces(both) == ["<mask>", "\u00e4x"]


def test_every_wire_type_is_passed_over() -> None:
    unknown = b"\x78\x96\x01" + b"\x79" + bytes(8) + b"\x7d" + bytes(4) + b"\x7a\x02ab"
    assert read_facts(unknown + model(model_type="bpe")).kind == "bpe"


@pytest.mark.parametrize("damaged", [b"\x0a", b"\x0a\x05ab", b"\x80", b"\xff" * 20, b"\x0b", b"\x79\x00"])
def test_damage_is_a_value_error(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="byte"):
        read_facts(damaged)
