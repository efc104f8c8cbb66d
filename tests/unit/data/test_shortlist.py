"""The lexical table: it finds who translates whom, is saved whole, and is refused where it does not fit."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tiny_runs import SOURCE_WORDS, TARGET_WORDS

from dragoman.data import shortlist as module
from dragoman.data.shortlist import NONE, Shortlist, learn_shortlist, translation_table
from dragoman.errors import DataError, VocabularyMismatch
from dragoman.text.subwords import Subwords


@pytest.fixture(scope="module")
def learned(corpus) -> Shortlist:
    return learn_shortlist(corpus, likeliest=3, most_frequent=4)


def by_hand(pairs: list[tuple[list[int], list[int]]], rounds: int) -> dict[tuple[int, int], float]:
    """Model 1 of Brown et al. 1993, in loops."""
    t = {(s, w): 1.0 for source, target in pairs for s in source for w in target}
    for _ in range(rounds):
        counts = dict.fromkeys(t, 0.0)
        for source, target in pairs:
            for w in target:
                total = sum(t[s, w] for s in source)
                for s in source:
                    counts[s, w] += t[s, w] / total
        sums: dict[int, float] = {}
        for (s, _), count in counts.items():
            sums[s] = sums.get(s, 0.0) + count
        t = {(s, w): count / sums[s] for (s, w), count in counts.items()}
    return t


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 5), min_size=1, max_size=4),
            st.lists(st.integers(0, 5), min_size=1, max_size=4),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_table_is_that_of_model_one(pairs):
    wanted = by_hand(pairs, module.ROUNDS)
    codes = sorted(wanted)
    which, place, at = [], [], 0
    for source, target in pairs:
        for w in target:
            which += [codes.index((s, w)) for s in source]
            place += [at] * len(source)
            at += 1
    found = translation_table(np.array(which), np.array(place), np.array([s for s, _ in codes]))
    assert found == pytest.approx([wanted[code] for code in codes], rel=1e-9)


def test_it_finds_the_translation_of_each_word(corpus, learned):
    """The made-up language has one word for each."""
    found = 0
    for source, target in zip(SOURCE_WORDS, TARGET_WORDS, strict=True):
        (*_, ours) = corpus.source_subwords.encode(source)
        (*_, theirs) = corpus.target_subwords.encode(target)
        found += theirs in learned.likeliest[ours].tolist()
    assert found >= len(SOURCE_WORDS) - 2, "a word cut into several may lose one of its pieces"


def test_choices_are_sorted_once_each_and_hold_what_they_must(corpus, learned):
    ids = [*corpus.source_subwords.encode("one two two"), Subwords.EOS_ID]
    choices = learned.choices(ids).tolist()
    assert all(a < b for a, b in pairwise(choices))
    assert Subwords.EOS_ID in choices
    assert set(learned.always.tolist()) <= set(choices)
    assert NONE not in choices
    assert learned.shares_subwords
    assert set(ids) <= set(choices), "a name may be copied"
    assert not set(corpus.target_subwords.forbidden_ids) & set(learned.always.tolist())
    assert len(choices) <= 5 + 3 * len(ids) + len(ids)


def test_rows_hold_the_likeliest_first_and_nothing_twice(corpus, learned):
    for row in learned.likeliest.tolist():
        real = [token for token in row if token != NONE]
        assert row == real + [NONE] * (len(row) - len(real))
        assert len(set(real)) == len(real)
    never = learned.likeliest[Subwords.PAD_ID]
    assert (never == NONE).all(), "what never occurs has no translations"


def test_of_a_big_corpus_some_pairs_are_looked_at(corpus, monkeypatch):
    all_of_it = learn_shortlist(corpus)
    monkeypatch.setattr(module, "MOST_LINKS", 2_000)
    some = learn_shortlist(corpus)
    assert 0 < int((some.likeliest != NONE).sum()) < int((all_of_it.likeliest != NONE).sum())


def loaded(path: Path, corpus) -> Shortlist:
    return Shortlist.load(
        path, source_subwords=corpus.source_subwords, target_subwords=corpus.target_subwords
    )


def test_what_was_saved_is_what_is_loaded(corpus, learned, tmp_path):
    for _ in range(2):  # the second takes the place of the first
        learned.save(tmp_path / "a")
    again = loaded(tmp_path / "a", corpus)
    assert torch.equal(again.likeliest, learned.likeliest)
    assert torch.equal(again.always, learned.always)
    assert again.shares_subwords == learned.shares_subwords
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


def test_another_model_s_is_refused(corpus, learned, tmp_path):
    other = Shortlist(
        learned.likeliest, learned.always, learned.shares_subwords, ("0" * 64, learned.digests[1])
    )
    other.save(tmp_path / "other")
    with pytest.raises(VocabularyMismatch, match="other subwords"):
        loaded(tmp_path / "other", corpus)


def changed(learned: Shortlist, **tensors: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"likeliest": learned.likeliest, "always": learned.always} | tensors


@pytest.mark.parametrize(
    "change",
    [
        lambda s: {"always": s.always.flip(0)},
        lambda s: {"always": s.always[s.always != Subwords.EOS_ID]},
        lambda s: {"always": torch.cat([s.always, torch.tensor([10**6])])},
        lambda s: {"likeliest": s.likeliest[1:]},
        lambda s: {"likeliest": s.likeliest - 1},
        lambda s: {"likeliest": s.likeliest.float()},
        lambda s: {"likeliest": s.likeliest.flatten()},
    ],
)
def test_a_damaged_one_is_refused(corpus, learned, tmp_path, change):
    facts = {"format": "dragoman-shortlist 1", "source": learned.digests[0], "target": learned.digests[1]}
    save_file(changed(learned, **change(learned)), tmp_path / "damaged", facts)
    with pytest.raises(DataError, match="damaged"):
        loaded(tmp_path / "damaged", corpus)


def test_what_is_no_shortlist_is_refused(corpus, learned, tmp_path):
    save_file({"x": torch.zeros(3)}, tmp_path / "weights")
    learned.save(tmp_path / "whole")
    (tmp_path / "cut").write_bytes((tmp_path / "whole").read_bytes()[:-5])
    (tmp_path / "text").write_text("nothing of the kind")
    for name in ("weights", "cut", "text", "nowhere"):
        with pytest.raises(DataError, match="shortlist"):
            loaded(tmp_path / name, corpus)
    assert set(load_file(tmp_path / "whole")) == {"likeliest", "always"}


def test_where_it_cannot_be_written_nothing_is_left(learned, tmp_path):
    with pytest.raises(DataError, match="cannot be written"):
        learned.save(tmp_path / "nowhere" / "file")
    assert list(tmp_path.iterdir()) == []
