"""BPE-dropout: other pieces, the same text, the same again for the same arguments."""

from __future__ import annotations

import numpy as np
import pytest

from dragoman.data.resample import bpe_dropout_segmenter
from dragoman.errors import ConfigError
from dragoman.text.subwords import Subwords

TEXT = "the newest and lowest wider river, lower and newer"


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    return Subwords.train([TEXT, "a lower river", "the newest"] * 5, vocab_size=320)


def test_other_pieces_of_the_same_text(subwords: Subwords) -> None:
    stored = np.array(subwords.encode(TEXT), np.uint16)
    segment = bpe_dropout_segmenter(subwords, subwords, p=0.5, seed=1)
    found = segment("source", stored, 0, 0)
    assert found != stored.tolist()
    assert subwords.decode(found) == TEXT


def test_it_depends_on_epoch_pair_side_and_seed_and_on_nothing_else(subwords: Subwords) -> None:
    stored = np.array(subwords.encode(TEXT), np.uint16)
    segment = bpe_dropout_segmenter(subwords, subwords, p=0.5, seed=1)
    first = segment("source", stored, 3, 2)
    others = [
        segment("target", stored, 3, 2),
        segment("source", stored, 2, 3),
        segment("source", stored, 3, 3),
        bpe_dropout_segmenter(subwords, subwords, p=0.5, seed=2)("source", stored, 3, 2),
    ]
    assert segment("source", stored, 3, 2) == first
    assert bpe_dropout_segmenter(subwords, subwords, p=0.5, seed=1)("source", stored, 3, 2) == first
    assert all(other != first for other in others)


def test_without_dropout_nothing_changes(subwords: Subwords) -> None:
    stored = np.array(subwords.encode(TEXT), np.uint16)
    assert bpe_dropout_segmenter(subwords, subwords, p=0, seed=1)("target", stored, 0, 0) == stored.tolist()


def test_each_side_has_its_model(subwords: Subwords) -> None:
    other = Subwords.train(["xyz zyx xyzzy"] * 5, vocab_size=280)
    segment = bpe_dropout_segmenter(subwords, other, p=0.3, seed=1)
    stored = np.array(other.encode("xyzzy xyz"), np.uint16)
    assert other.decode(segment("target", stored, 0, 0)) == "xyzzy xyz"


def test_a_unit_with_an_unknown_piece_stays_as_it_is() -> None:
    subwords = Subwords.train(["abab abab"] * 5, vocab_size=8, byte_fallback=False)
    stored = np.array(subwords.encode("abab q abab"), np.uint16)
    assert Subwords.UNK_ID in stored
    assert bpe_dropout_segmenter(subwords, subwords, p=1, seed=1)("source", stored, 0, 0) == stored.tolist()


@pytest.mark.parametrize(
    ("p", "seed", "field"), [(-0.1, 1, "bpe_dropout"), (1.1, 1, "bpe_dropout"), (0.1, -1, "seed")]
)
def test_numbers_out_of_range_are_refused(subwords: Subwords, p: float, seed: int, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bpe_dropout_segmenter(subwords, subwords, p=p, seed=seed)
    assert caught.value.where == field
