"""I05: no text gives a control id, whatever it spells; and no text gives a line end."""

from __future__ import annotations

import functools
import io

import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.subwords import Subwords

RESERVED = [
    "<s>", "</s>", "<pad>", "<unk>", "<mask>", "<sep>", "<de>", "[PAD]", "\u2047", "\u2581", "\u2581<s>",
    "</s>\u2581",
    "<0x0A>", "<0x0D>", "<0x00>", "<0xFF>", "<0x", "<", ">", "s", "/", "\0", "\n", "\r", " ", "\ufffd",
]  # fmt: skip
texts = st.lists(st.sampled_from(RESERVED) | st.text(max_size=3), max_size=12).map("".join)


@functools.cache
def subwords() -> Subwords:
    """Trained on nothing but reserved spellings, so that they would be pieces if they could."""
    return Subwords.train(RESERVED * 20 + [" ".join(RESERVED)] * 20, vocab_size=500)


@functools.cache
def subwords_of_others() -> Subwords:
    """Other numbers, no padding, no bytes, control symbols of its own."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(RESERVED * 20),
        model_writer=written,
        model_type="bpe",
        vocab_size=100,
        hard_vocab_limit=False,
        control_symbols=["<de>", "<sep>"],
        minloglevel=5,
    )
    return Subwords.from_bytes(written.getvalue())


@given(texts, st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 2**32))
def test_text_is_never_control(text: str, p: float, seed: int) -> None:
    model = subwords()
    ids = set(model.encode(text)) | set(model.encode_with_dropout(text, p, seed))
    assert not ids & {model.PAD_ID, model.EOS_ID, model.BOS_ID, model.UNK_ID}
    assert not ids & set(model.forbidden_ids)
    assert model.decode(model.encode(text)) == model.normalize(text)


@given(texts, st.sampled_from([0.0, 0.3, 1.0]), st.integers(0, 2**32))
def test_nor_is_it_in_models_of_others(text: str, p: float, seed: int) -> None:
    model = subwords_of_others()
    ids = set(model.encode(text)) | set(model.encode_with_dropout(text, p, seed))
    assert not ids & {model.PAD_ID, model.EOS_ID, model.BOS_ID}
    assert not ids & set(model.ids_of(["<de>", "<sep>"]))


@given(texts)
def test_no_byte_piece_is_spelled(text: str) -> None:
    model = subwords()
    for piece in model.pieces(model.encode(text)):
        if piece.startswith("<0x") and len(piece) == 6:
            assert bytes([int(piece[3:5], 16)]) in model.normalize(text).encode()
