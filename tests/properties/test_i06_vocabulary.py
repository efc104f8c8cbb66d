"""I06: a vocabulary is the same after saving and loading, to the byte, whatever its entries are."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dragoman.text.normalize import is_blank
from dragoman.text.subwords import Subwords

ODD = "\u2028\u2029\x85\ufeff\0\t\v\x1c \u00a0\u3000\u200b\U0001f600"
units = st.text(st.sampled_from(ODD + "ab") | st.characters(), max_size=12)
on_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


@on_files
@given(texts=st.lists(units, min_size=1, max_size=8), byte_fallback=st.booleans())
def test_save_load_save(tmp_path: Path, texts: list[str], byte_fallback: bool) -> None:
    assume(not all(map(is_blank, texts)))
    model = Subwords.train(texts * 2, vocab_size=320, byte_fallback=byte_fallback, character_coverage=1.0)
    first, second = tmp_path / "first.model", tmp_path / "second.model"
    model.save(first)
    loaded = Subwords.load(first)
    loaded.save(second)
    assert first.read_bytes() == second.read_bytes() == model.to_bytes()
    assert loaded == model == pickle.loads(pickle.dumps(loaded))
    assert loaded.digest == model.digest == hashlib.sha256(first.read_bytes()).hexdigest()
    everything = range(model.vocab_size)
    assert loaded.pieces(everything) == model.pieces(everything)
    assert [loaded.encode(text) for text in texts] == [model.encode(text) for text in texts]
    assert loaded.pieces(range(4)) == ["<pad>", "</s>", "<s>", "<unk>"]
    assert loaded.ids_of(loaded.pieces(everything)) == list(everything)


def test_entries_that_break_text_files(tmp_path: Path) -> None:
    texts = ["x\u2028\u2028x", "y\ufeff\ufeffy", "z\x85\x85z", "\0\0"] * 20
    model = Subwords.train(texts, vocab_size=320, character_coverage=1.0)
    model.save(tmp_path / "odd.model")
    pieces = set(Subwords.load(tmp_path / "odd.model").pieces(range(model.vocab_size)))
    assert {"\u2028", "\ufeff", "\x85"} <= {character for piece in pieces for character in piece}
    assert any(len(piece) > 1 and "\u2028" in piece for piece in pieces)
