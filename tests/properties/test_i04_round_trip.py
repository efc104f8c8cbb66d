"""I04: decode(encode(x)) == normalize(x), normalize is idempotent, encode(normalize(x)) == encode(x)."""

from __future__ import annotations

import functools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.text.normalize import normalize
from dragoman.text.subwords import Subwords

ODD = "\n\r\t\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029\0\u2581\u2585\ufeff\ufffd\u200b\u200d\ud800\udfff"
texts = st.text(
    st.sampled_from(" \U0001f600\U0010ffff" + ODD)
    | st.sampled_from("abcdefghij")
    | st.characters(exclude_categories=()),
    max_size=60,
)
models = pytest.mark.parametrize("name", ["words", "tiny", "spaces"])


@functools.cache
def subwords(name: str) -> Subwords:
    """Three vocabularies: one with many merges, one with none, one learned from odd signs."""
    match name:
        case "words":
            return Subwords.train(["abc def ghij", "jihg fed cba", "\u00e4bc d\u00e9f"] * 9, vocab_size=400)
        case "tiny":
            return Subwords.train(["a"], vocab_size=1)
        case _:
            return Subwords.train(["a    b  \t\tc", " \u2028\u2028a ", "\ufeffb\0\0b"] * 9, vocab_size=400)


@models
@given(text=texts)
@example(text="")
@example(text=" ")
@example(text="\u2581")
@example(text="\n")
@example(text="\0")
@example(text="\r\n\u2028 \ud83d\ude00")
def test_round_trip(name: str, text: str) -> None:
    model = subwords(name)
    ids = model.encode(text)
    assert model.decode(ids) == normalize(text)
    assert model.normalize(text) == normalize(text)
    assert model.encode(normalize(text)) == ids
    assert model.encode_batch([text]) == [ids]


@given(texts)
def test_normalize_is_idempotent_and_can_be_written(text: str) -> None:
    normal = normalize(text)
    assert normalize(normal) == normal
    assert len(normal) == len(text)
    normal.encode("utf-8")
    assert not set(normal) & set("\n\r\u2581")


@models
@given(text=texts, p=st.sampled_from([0.0, 0.1, 0.5, 1.0]), seed=st.integers(0, 2**64))
def test_dropout_changes_the_cut_and_not_the_text(name: str, text: str, p: float, seed: int) -> None:
    model = subwords(name)
    ids = model.encode_with_dropout(text, p, seed)
    assert model.decode(ids) == normalize(text)
    assert ids == model.encode_with_dropout(text, p, seed)


@models
@given(text=texts, seed=st.integers(0, 2**64))
def test_no_dropout_is_encode_and_full_dropout_is_characters(name: str, text: str, seed: int) -> None:
    model = subwords(name)
    assert model.encode_with_dropout(text, 0.0, seed) == model.encode(text)
    pieces = model.pieces(model.encode_with_dropout(text, 1.0, seed))
    assert all(len(piece) == 1 or piece.startswith("<0x") for piece in pieces)


@models
@given(data=st.data())
def test_any_ids_decode_to_one_unit(name: str, data: st.DataObject) -> None:
    model = subwords(name)
    ids = data.draw(st.lists(st.integers(0, model.vocab_size - 1), max_size=30))
    text = model.decode(ids)
    assert normalize(text) == text
    text.encode("utf-8")
