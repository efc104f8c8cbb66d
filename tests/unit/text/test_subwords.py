"""Subwords: special ids, files, copies, odd text, and models made by others.

Paper: 5.1
"""

from __future__ import annotations

import copy
import hashlib
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece

import dragoman
from dragoman.errors import CheckpointError, ConfigError, DataError
from dragoman.text.subwords import Subwords

UNITS = [
    "the quick brown fox jumps over the lazy dog",
    "a merge is a pair of neighbors that is written as one",
    "der schnelle braune Fuchs springt \u00fcber den faulen Hund",
    "ein Paar von Nachbarn wird als eines geschrieben",
] * 5
ODD_TEXTS = [
    "",
    " ",
    "  two  spaces  ",
    "\t\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029",
    "nul\0nul",
    "\u2581\u2581 mark\u2581",
    "\u2585 block",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f600",
    "<s> </s> <pad> <unk> <0x0A> <0x00>",
    "\ufeffmark",
    "\ud800 surrogate \udfff",
    "\ufb01 A\u030a \u00c5",
    "line\nfeed\r\n",
]


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return Subwords.train(UNITS, vocab_size=330)


def train_elsewhere(**options: Any) -> Subwords:
    """A model as SentencePiece's own command would train it, with other numbers and no padding."""
    written = io.BytesIO()
    settings: dict[str, Any] = {"model_type": "bpe", "vocab_size": 80, "hard_vocab_limit": False}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(UNITS), model_writer=written, minloglevel=5, **(settings | options)
    )
    return Subwords.from_bytes(written.getvalue())


def test_special_ids(subwords: Subwords) -> None:
    assert (subwords.PAD_ID, subwords.EOS_ID, subwords.BOS_ID, subwords.UNK_ID) == (0, 1, 2, 3)
    assert subwords.pieces(range(4)) == ["<pad>", "</s>", "<s>", "<unk>"]
    assert subwords.pieces([4, 259]) == ["<0x00>", "<0xFF>"]
    assert subwords.model_ids == tuple(range(subwords.vocab_size))


def test_forbidden_ids(subwords: Subwords) -> None:
    line_feed, carriage_return = subwords.ids_of(["<0x0A>", "<0x0D>"])
    assert subwords.forbidden_ids == (0, 2, 3, line_feed, carriage_return)


def test_without_byte_fallback_unknown_is_allowed_and_shown() -> None:
    subwords = Subwords.train(UNITS, vocab_size=80, byte_fallback=False)
    assert not subwords.has_byte_fallback
    assert subwords.forbidden_ids == (0, 2)
    ids = subwords.encode("fox \u4e00\u4e8c fox")
    assert ids.count(subwords.UNK_ID) == 1
    assert subwords.decode(ids) == "fox \u2047 fox"
    assert subwords.encode_with_dropout("fox \u4e00\u4e8c fox", 0.0, 1) == ids


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_text_comes_back(subwords: Subwords, text: str) -> None:
    ids = subwords.encode(text)
    assert subwords.decode(ids) == subwords.normalize(text)
    assert not set(ids) & {0, 1, 2, 3}
    assert subwords.encode(subwords.normalize(text)) == ids
    assert subwords.encode_batch([text, text]) == [ids, ids]


def test_training_text_that_spells_reserved_pieces() -> None:
    subwords = Subwords.train(["<s> </s> <pad> <unk> <0x0A> and <0x0A>"] * 50, vocab_size=400)
    assert subwords.pieces(range(4)) == ["<pad>", "</s>", "<s>", "<unk>"]
    ids = subwords.encode("<s></s><pad><0x0A>")
    assert min(ids) > 3
    assert subwords.ids_of(["<0x0A>"])[0] not in ids
    assert subwords.decode(ids) == "<s></s><pad><0x0A>"


@pytest.mark.parametrize("text", [*ODD_TEXTS, "a merge", "fox jumps over. the"])
def test_a_text_inside_another_gets_no_space_before_it(subwords: Subwords, text: str) -> None:
    inside = subwords.encode_inside(text)
    assert subwords.decode([*subwords.encode("Hund"), *inside]) == "Hund" + subwords.normalize(text)
    assert subwords.decode(subwords.encode_inside(" " + text)) == subwords.normalize(text)


def test_words_inside_are_cut_as_words_are(subwords: Subwords) -> None:
    assert subwords.encode_inside(" the quick fox") == subwords.encode("the quick fox")
    assert subwords.encode("the")[-1:] + subwords.encode_inside(" quick") == subwords.encode("the quick")


def test_decode_passes_over_controls(subwords: Subwords) -> None:
    ids = subwords.encode("the fox")
    assert subwords.decode([2, *ids, 1, 0, 0]) == "the fox"
    assert subwords.decode(np.array(ids)) == "the fox"
    assert subwords.decode([]) == ""


def test_decode_never_gives_a_line_end_and_shows_broken_bytes(subwords: Subwords) -> None:
    assert subwords.decode(subwords.ids_of(["<0x41>", "<0x0A>", "<0x42>", "<0x0D>"])) == "A B "
    assert subwords.decode(subwords.ids_of(["<0xE2>", "<0x41>"])) == "\ufffdA"


@pytest.mark.parametrize("bad", [-1, 10_000])
def test_ids_outside_are_refused(subwords: Subwords, bad: int) -> None:
    with pytest.raises(DataError, match=str(bad)):
        subwords.decode([5, bad])
    with pytest.raises(DataError, match=str(bad)):
        subwords.pieces([bad])


def test_pieces_and_ids_are_inverse(subwords: Subwords) -> None:
    everything = list(range(subwords.vocab_size))
    assert subwords.ids_of(subwords.pieces(everything)) == everything
    with pytest.raises(DataError, match="no such piece"):
        subwords.ids_of(["no such piece"])


def test_save_and_load(subwords: Subwords, tmp_path: Path) -> None:
    path = tmp_path / "subwords.model"
    subwords.save(path)
    loaded = Subwords.load(path)
    assert path.read_bytes() == subwords.to_bytes() == loaded.to_bytes()
    assert loaded == subwords
    assert hash(loaded) == hash(subwords)
    assert loaded.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert os.listdir(tmp_path) == ["subwords.model"]
    assert loaded.training_report is None


def test_save_where_nothing_can_be(subwords: Subwords, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be written"):
        subwords.save(tmp_path / "absent" / "subwords.model")


def test_copies(subwords: Subwords) -> None:
    for other in (pickle.loads(pickle.dumps(subwords)), copy.deepcopy(subwords), copy.copy(subwords)):
        assert other == subwords
        assert other.encode("the fox") == subwords.encode("the fox")
        assert other.training_report == subwords.training_report
    assert repr(subwords).startswith("Subwords(vocab_size=330, digest=")
    assert subwords != "subwords"


@pytest.mark.parametrize("data", [b"", b"\0", b"plain text\n", b"\x0a\xff\xff\xff\xff\x7f", bytes(100)])
def test_what_is_no_model_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "some.model"
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"not a SentencePiece model[\s\S]*some\.model"):
        Subwords.load(path)


def test_cut_model_is_refused(subwords: Subwords) -> None:
    whole = subwords.to_bytes()
    for size in range(0, len(whole) - 1, 37):
        with pytest.raises(CheckpointError):
            Subwords.from_bytes(whole[:size])


def test_missing_model_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"absent\.model"):
        Subwords.load(tmp_path / "absent.model")
    with pytest.raises(CheckpointError, match="cannot be read"):
        Subwords.load(tmp_path)


def test_model_without_padding_gets_a_row_for_it() -> None:
    subwords = train_elsewhere(normalization_rule_name="nmt_nfkc")  # unk 0, begin 1, end 2, no padding
    size = sentencepiece.SentencePieceProcessor(model_proto=subwords.to_bytes()).get_piece_size()
    assert subwords.vocab_size == size + 1
    assert subwords.model_ids[:5] == (-1, 2, 1, 0, 3)
    assert subwords.pieces(range(4)) == ["<pad>", "</s>", "<s>", "<unk>"]
    assert subwords.forbidden_ids == (0, 2)
    assert sorted(subwords.model_ids) == [-1, *range(size)]


def test_model_of_others_gives_its_own_pieces() -> None:
    subwords = train_elsewhere(normalization_rule_name="nmt_nfkc")
    theirs = sentencepiece.SentencePieceProcessor(model_proto=subwords.to_bytes())
    ids = subwords.encode("  the \ufb01rst  Fuchs ")
    assert [subwords.model_ids[k] for k in ids] == theirs.encode("  the \ufb01rst  Fuchs ")
    assert subwords.encode_batch(["the Fuchs"]) == [subwords.encode("the Fuchs")]
    assert subwords.decode(ids) == subwords.normalize("  the \ufb01rst  Fuchs ") == "the first Fuchs"
    assert subwords.normalization == "nmt_nfkc"


def test_model_without_begin_and_end() -> None:
    subwords = train_elsewhere(bos_id=-1, eos_id=-1)
    assert subwords.model_ids[:4] == (-1, -1, -1, 0)
    assert subwords.pieces(range(4)) == ["<pad>", "</s>", "<s>", "<unk>"]
    assert subwords.decode([2, *subwords.encode("the fox"), 1]) == "the fox"


@pytest.mark.parametrize("options", [{"add_dummy_prefix": False}, {"treat_whitespace_as_suffix": True}])
def test_models_with_other_edges(options: dict[str, object]) -> None:
    subwords = train_elsewhere(
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        byte_fallback=True,
        vocab_size=340,
        **options,
    )
    for text in ["", " ", " the  fox ", "fox", "\u4e00 "]:
        ids = subwords.encode(text)
        assert subwords.decode(ids) == subwords.normalize(text) == text
        assert subwords.encode_with_dropout(text, 0.0, 1) == ids


def test_user_defined_and_control_symbols_of_others() -> None:
    subwords = train_elsewhere(user_defined_symbols=["<mask>", "ox"], control_symbols=["<de>"])
    mask, ox, german = subwords.ids_of(["<mask>", "ox", "<de>"])
    text = "the <mask> fox <de>"
    ids = subwords.encode(text)
    assert mask in ids
    assert ox in ids
    assert german not in ids
    assert german in subwords.forbidden_ids
    assert subwords.encode_with_dropout(text, 0.0, 1) == ids
    assert mask in subwords.encode_with_dropout(text, 1.0, 1)


def test_dropout_needs_bpe() -> None:
    with pytest.raises(ConfigError, match="this one is unigram"):
        train_elsewhere(model_type="unigram", vocab_size=60).encode_with_dropout("fox", 0.1, 1)


@pytest.mark.parametrize(("p", "seed"), [(-0.1, 1), (1.1, 1), (float("nan"), 1), (0.1, -1)])
def test_dropout_arguments(subwords: Subwords, p: float, seed: int) -> None:
    with pytest.raises(ConfigError):
        subwords.encode_with_dropout("fox", p, seed)


def test_import_needs_no_torch() -> None:
    program = "import sys, dragoman.text.subwords, dragoman.text.corpus; sys.exit('torch' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(Path(dragoman.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode == 0


def test_real_models_of_others() -> None:
    root = os.environ.get("DRAGOMAN_DATA")
    if not root:
        pytest.skip("DRAGOMAN_DATA is not set")
    paths = sorted(Path(root, "models").glob("*/*.model")) + sorted(Path(root, "models").glob("*/*.spm"))
    assert len(paths) >= 5
    for path in paths:
        subwords = Subwords.load(path)
        text = "the house is small"
        assert subwords.decode(subwords.encode(text)) == text
        assert subwords.to_bytes() == path.read_bytes()
        if subwords._facts.kind == "bpe":
            assert subwords.encode_with_dropout(text, 0.0, 1) == subwords.encode(text)
