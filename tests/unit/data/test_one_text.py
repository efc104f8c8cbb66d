"""A text that has no translation, prepared: one side on the disk, every line in it or named."""

from __future__ import annotations

import numpy as np
import pytest
from command_line import done, refused, write_lines
from tiny_runs import counting

from dragoman.data.batches import BatchLoader, BatchPlan, Cursor, make_batch
from dragoman.data.manifest import read_manifest
from dragoman.data.prepare import open_prepared, prepare
from dragoman.data.prepared import PreparedCorpus
from dragoman.data.shards import PairShards
from dragoman.errors import ConfigError, DataError
from dragoman.text.corpus import ParallelText
from dragoman.text.subwords import Subwords

LINES = [*counting(60, seed=1), "", "three\tcolumns of\ttext", "ten eleven", "a & b &amp; c"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    write_lines(folder / "t.en", LINES)
    write_lines(folder / "dev.en", counting(8, seed=2))
    return folder


@pytest.fixture(scope="module")
def prepared(folder) -> PreparedCorpus:
    return prepare(
        folder / "t.en", out=folder / "p", one_text=True, dev_source=folder / "dev.en", vocab_size=310
    )


def texts_of(shards: PairShards, subwords: Subwords) -> dict[int, str]:
    return {
        int(line): subwords.decode(shards.source(k).tolist()) for k, line in enumerate(shards.line_numbers)
    }


def test_every_line_is_there_or_named(prepared):
    there = texts_of(prepared.train, prepared.source_subwords)
    assert there == {k: line for k, line in enumerate(LINES, start=1) if line}
    assert [(pair.line, pair.reason) for pair in prepared.left_out_pairs()] == [(61, "blank")]


def test_one_side_is_on_the_disk_and_is_the_other_too(prepared):
    names = {path.name for path in prepared.directory.iterdir()}
    assert not [name for name in names if "target" in name]
    assert {"train.source.ids.npy", "train.source.offsets.npy", "dev.source.txt", "subwords.model"} <= names
    assert prepared.one_text
    assert prepared.joint
    shards = prepared.train
    assert shards.target_ids is shards.source_ids
    assert np.array_equal(shards.source(3), shards.target(3))
    texts = prepared.dev_texts()
    assert texts.sources == texts.targets == tuple(counting(8, seed=2))
    record = prepared.manifest.splits["train"]
    assert record.source_tokens == record.target_tokens == len(shards.source_ids)
    assert (prepared.source_language, prepared.target_language) == ("en", "en")


def test_it_is_opened_again_verified_and_damage_is_found(prepared, tmp_path):
    again = open_prepared(prepared.directory)
    again.verify()
    assert read_manifest(prepared.directory).one_text
    assert np.array_equal(again.dev.source_ids, prepared.dev.source_ids)


def test_batches_have_the_same_text_on_both_sides(prepared):
    batch = make_batch(prepared.train, np.array([0, 5, 9]))
    assert batch.source_ids.tolist() == batch.target_output_ids.tolist()
    assert batch.source_tokens == batch.target_tokens
    plan = BatchPlan.of(prepared.train, source_tokens=60, target_tokens=60, seed=1, max_length=40)

    def halved(side, ids, pair, epoch):
        """Another cut for each side would be two texts."""
        assert side == "source"
        return ids[: max(1, len(ids) // 2)].tolist()

    cut, _ = next(BatchLoader(prepared.train, plan, segment=halved, prefetch=0).batches())
    assert cut.source_ids.tolist() == cut.target_output_ids.tolist()


def test_an_objective_is_given_each_batch_with_its_epoch_wherever_it_begins(prepared):
    plan = BatchPlan.of(prepared.train, source_tokens=200, target_tokens=200, seed=1, max_length=40)
    seen = []

    def note(batch, epoch):
        seen.append((batch.pair_indices.tolist(), epoch))
        return batch

    batches = BatchLoader(prepared.train, plan, objective=note, prefetch=0).batches()
    for _ in range(len(plan) + 2):
        next(batches)
    assert [epoch for _, epoch in seen] == [0] * len(plan) + [1, 1]
    whole = list(seen)
    seen.clear()
    next(BatchLoader(prepared.train, plan, objective=note, prefetch=0).batches(Cursor(1, 1)))
    assert seen == [whole[-1]]


def test_the_report_speaks_of_lines_and_of_one_text(prepared):
    report = prepared.report
    assert report.startswith("prepared corpus, one text, en\n")
    assert "read       64 lines from t.en" in report
    assert "train      63 lines, " in report
    assert "pair" not in report
    assert "source" not in report
    assert "63 training lines are few" in report
    assert "1 training lines (1.6%) hold HTML entities" in report


def test_a_dev_set_is_split_off_by_seed(folder, tmp_path):
    one, again = (
        prepare(folder / "t.en", out=tmp_path / name, one_text=True, dev_size=5, vocab_size=310)
        for name in ("a", "b")
    )
    assert texts_of(one.dev, one.source_subwords) == texts_of(again.dev, again.source_subwords)
    assert len(one.dev) == 5
    assert "5 of 64 lines were split off" in one.report


def test_subwords_are_learned_from_the_text_once(folder, prepared):
    text = [line for line in LINES if line]
    assert prepared.source_subwords.digest == Subwords.train(text, vocab_size=310).digest


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "t.en"}, "one text has no translation"),
        ({"dev_source": "dev.en", "dev_target": "dev.en"}, "one text has no translation"),
        ({"joint": False}, "one text has one vocabulary"),
    ],
)
def test_what_is_of_two_texts_is_refused(folder, tmp_path, options, said):
    paths = {name: folder / value if isinstance(value, str) else value for name, value in options.items()}
    target = paths.pop("target", None)
    with pytest.raises(ConfigError, match=said) as caught:
        prepare(folder / "t.en", target, out=tmp_path / "p", one_text=True, **paths)
    assert caught.value.cure
    assert not (tmp_path / "p").exists()


def test_no_text_at_all(tmp_path):
    with pytest.raises(DataError, match="no line is left") as caught:
        prepare(
            write_lines(tmp_path / "e.en", ["", " "]),
            out=tmp_path / "p",
            one_text=True,
            dev_source=write_lines(tmp_path / "d.en", ["one"]),
        )
    assert "2, blank" not in caught.value.what
    assert "lines" in caught.value.cure


def test_from_the_command_line_and_from_standard_input(folder, tmp_path):
    done("prepare", folder / "t.en", "--one-text", "--out", tmp_path / "p", "--vocab-size", 310)
    text = (folder / "t.en").read_bytes()
    done("prepare", "-", "--one-text", "--out", tmp_path / "q", "--vocab-size", 310, stdin=text)
    for name in ("train.source.ids.npy", "subwords.model"):
        assert (tmp_path / "p" / name).read_bytes() == (tmp_path / "q" / name).read_bytes()
    said = refused(2, "prepare", folder / "t.en", folder / "t.en", "--one-text", "--out", tmp_path / "r")
    assert "one text has no translation" in said
    said = refused(3, "prepare", folder / "dev.en", "--out", tmp_path / "r")
    assert "--one-text" in said, "a text of no columns may be meant to be one text"


def test_lines_of_a_text_alone():
    assert ParallelText.alone("x").called == "lines"
    assert ParallelText("x", "y").called == "pairs"
