"""The measurement of positions beyond the trained length: texts as long as they should be, the short mode as a whole."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import positions_beyond
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learning import prepared_grammar
from positions_beyond import (
    BOUNDS,
    FULL,
    POSITIONS,
    SHORT,
    TRAINED,
    recipe_of,
    scored_texts,
    strung,
    strung_corpus,
)

pytestmark = pytest.mark.usefixtures("quick_runs")


@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=8),
    least=st.integers(1, 60),
    room=st.integers(31, 60),
)
def test_texts_are_as_long_as_asked(lengths, least, room):
    sides = np.array(lengths)
    texts = strung(sides, 5, least=least, most=least + room, seed="any")
    assert len(texts) == 5
    for text in texts:
        assert least <= int(sides[text].sum(axis=0).max()) + 1 <= least + room


def test_the_same_seed_gives_the_same_texts():
    lengths = np.array([[3, 4], [5, 2], [7, 7]])
    one, same, other = (strung(lengths, 20, least=1, most=30, seed=seed) for seed in ("a", "a", "b"))
    assert one == same != other


def test_sentences_that_are_all_too_long_are_told_and_not_sought_for_ever():
    with pytest.raises(AssertionError, match="no sentence is short enough"):
        strung(np.array([[16, 3]]), 1, least=1, most=16, seed="any")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("positions")


def test_training_stays_within_the_trained_length_and_each_scored_text_within_its_bounds(place):
    grammar = prepared_grammar(
        place, pairs=SHORT.pairs, test_pairs=SHORT.test_pairs, vocab_size=SHORT.vocab_size
    )
    scored = scored_texts(grammar, SHORT)
    corpus = strung_corpus(grammar, scored, SHORT, grammar.directory.parent / f"strung-{SHORT.texts}")
    longest = np.maximum(corpus.train.source_lengths, corpus.train.target_lengths)
    assert longest.max() <= TRAINED
    assert len(corpus.train) == SHORT.texts
    assert corpus.target_subwords.digest == grammar.target_subwords.digest
    lengths = np.maximum(corpus.dev.source_lengths, corpus.dev.target_lengths)
    assert len(lengths) == SHORT.scored * (len(BOUNDS) - 1)
    for k, (over, most) in enumerate(pairwise(BOUNDS)):
        some = lengths[k * SHORT.scored : (k + 1) * SHORT.scored]
        assert ((over < some) & (some <= most)).all()


def test_the_short_mode_makes_every_run_once_and_tells_them_all(place, capsys, monkeypatch):
    positions_beyond.main(["--short", "--seeds", "1", "--out", str(place)])
    first = capsys.readouterr().out
    monkeypatch.setattr("positions_beyond.outcome", lambda *_: pytest.fail("made again"))
    positions_beyond.main(["--short", "--seeds", "1", "--out", str(place)])
    assert capsys.readouterr().out == first
    record = json.loads((place / "positions_beyond.json").read_text(encoding="utf-8"))
    assert [run["positions"] for run in record["runs"]] == list(POSITIONS)
    for run in record["runs"]:
        for field in ("perplexity", "exact", "sentence_by_sentence"):
            assert len(run[field]) == len(BOUNDS) - 1
    for name in POSITIONS:
        assert first.count(f"\n| {name} |") == 2
        assert first.count(f"\n| {name}, sentence by sentence |") == 1


def test_runs_differ_in_how_positions_are_told_alone():
    recipes = [recipe_of(FULL, name, 1, "fp32").model_dump() for name in POSITIONS]
    told = [recipe.pop("departures")["architecture"] for recipe in recipes]
    assert told[0] == ()
    assert len(set(map(str, told))) == len(POSITIONS)
    assert all(recipe == recipes[0] for recipe in recipes)
    assert recipes[0]["batch"]["max_length"] == TRAINED
