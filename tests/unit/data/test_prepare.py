"""Preparing: pairs stay pairs, everything left out is named, and the directory is whole or not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dragoman.data.prepare import PreparedCorpus, Progress, open_prepared, prepare
from dragoman.errors import CheckpointError, ConfigError, DataError
from dragoman.text.subwords import Subwords

NAMES = ("Anna", "Bert", "Clara", "David", "Emil", "Frieda")
ENGLISH = [f"{a} sees {b} and {c}." for a in NAMES for b in NAMES for c in NAMES]
GERMAN = [f"{a} sieht {b} und {c}." for a in NAMES for b in NAMES for c in NAMES]


def write(path: Path, units: Sequence[str]) -> Path:
    path.write_bytes(b"".join(unit.encode() + b"\n" for unit in units))
    return path


class Corpus:
    """Two files in a folder of their own, and what is prepared from them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "prepared"
        self.write(ENGLISH, GERMAN)

    def write(self, source: Sequence[str], target: Sequence[str]) -> None:
        self.source, self.target = write(self.folder / "t.en", source), write(self.folder / "t.de", target)

    def prepare(self, **options: Any) -> PreparedCorpus:
        return prepare(self.source, self.target, **{"out": self.out, "vocab_size": 300, **options})

    def names(self) -> list[str]:
        return sorted(os.listdir(self.folder))


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path)


def texts(prepared: PreparedCorpus, split: str = "train") -> list[tuple[int, str, str]]:
    """(line, source, target) of each pair of a split, decoded."""
    shards = prepared.train if split == "train" else prepared.dev
    return [
        (
            int(shards.line_numbers[k]),
            prepared.source_subwords.decode(shards.source(k).tolist()),
            prepared.target_subwords.decode(shards.target(k).tolist()),
        )
        for k in range(len(shards))
    ]


def test_every_pair_is_kept_with_its_line(corpus: Corpus) -> None:
    prepared = corpus.prepare()
    assert len(prepared.train) + len(prepared.dev) == len(ENGLISH)
    found = sorted(texts(prepared) + texts(prepared, "dev"))
    expected = zip(range(1, len(ENGLISH) + 1), ENGLISH, GERMAN, strict=True)
    assert found == list(expected)
    assert texts(prepared) == sorted(texts(prepared))


def test_the_files_are_those_of_the_manifest_and_verify(corpus: Corpus) -> None:
    prepared = corpus.prepare()
    names = {record.name for record in prepared.manifest.files}
    assert names | {"manifest.json"} == set(os.listdir(corpus.out))
    assert {"subwords.model", "dev.source.txt", "dev.target.txt", "report.txt", "left-out.tsv"} <= names
    prepared.verify()
    assert corpus.names() == ["prepared", "t.de", "t.en"]


def test_nothing_in_the_directory_tells_where_it_was_made(corpus: Corpus) -> None:
    corpus.prepare()
    for path in corpus.out.iterdir():
        assert str(corpus.folder).encode() not in path.read_bytes()
    origin = open_prepared(corpus.out).manifest.origin
    assert origin is not None
    assert (origin.source_files, origin.target_files, origin.pairs_read) == (("t.en",), ("t.de",), 216)


def test_the_same_input_gives_the_same_bytes(corpus: Corpus) -> None:
    corpus.prepare()
    corpus.prepare(out=corpus.folder / "again")
    for path in corpus.out.iterdir():
        assert path.read_bytes() == (corpus.folder / "again" / path.name).read_bytes(), path.name


def test_a_dev_set_is_split_off_by_seed_and_said(corpus: Corpus) -> None:
    prepared = corpus.prepare(dev_size=10)
    assert (len(prepared.train), len(prepared.dev)) == (206, 10)
    assert "10 of 216 pairs were split off with seed 1" in prepared.notes[0]
    assert prepared.notes[0] in prepared.report
    other = corpus.prepare(dev_size=10, seed=2, out=corpus.folder / "other")
    assert prepared.dev.line_numbers.tolist() != other.dev.line_numbers.tolist()


def test_an_empty_text_is_named(corpus: Corpus) -> None:
    corpus.write([], [])
    with pytest.raises(DataError, match=r"train set: the text is empty\n.*t\.en.*t\.de"):
        corpus.prepare()
    corpus.write(["", " "], ["", "x"])
    with pytest.raises(DataError, match=r"train set: .*blank"):
        corpus.prepare()
    assert not corpus.out.exists()


def test_what_is_likely_a_mistake_is_said(corpus: Corpus) -> None:
    same = "source and target are the same text"
    few = "206 training pairs are few"
    notes = corpus.prepare(dev_size=10).notes
    assert not any(same in note for note in notes)
    assert any(few in note for note in notes)
    one = prepare(corpus.folder / "t.en", corpus.folder / "t.en", out=corpus.folder / "copy", vocab_size=300)
    assert any(same in note for note in one.notes)
    corpus.write(ENGLISH * 5, GERMAN * 5)
    many = corpus.prepare(
        out=corpus.folder / "many",
        dev_source=write(corpus.folder / "d.en", ["x"]),
        dev_target=write(corpus.folder / "d.de", ["y"]),
    )
    assert not any("are few" in note for note in many.notes)


def test_training_pairs_of_the_same_text_as_a_split_off_one_are_left_out(corpus: Corpus) -> None:
    corpus.write(ENGLISH * 2, GERMAN * 2)
    prepared = corpus.prepare(dev_size=20)
    dev = {pair[1:] for pair in texts(prepared, "dev")}
    assert not dev & {pair[1:] for pair in texts(prepared)}
    assert {p.reason for p in prepared.left_out_pairs()} == {"the same text is in the dev set"}
    assert len(prepared.train) + len(prepared.dev) + prepared.left_out.total == 432


def test_subwords_are_learned_from_training_pairs_alone(corpus: Corpus) -> None:
    dev_source = write(corpus.folder / "d.en", ["zqzqzqzqzq " * 20] * 50)
    dev_target = write(corpus.folder / "d.de", ["zqzqzqzqzq " * 20] * 50)
    prepared = corpus.prepare(dev_source=dev_source, dev_target=dev_target)
    assert not any("zq" in piece for piece in prepared.source_subwords.pieces(range(300)))


def test_a_given_dev_set_is_kept_in_order_as_text_and_as_shards(corpus: Corpus) -> None:
    sources, targets = ["Emil  sees\u2028Anna. ", "\ufeffx", "a\rb\r"], ["Emil\u0085 sieht", "y", "ä"]
    prepared = corpus.prepare(
        dev_source=write(corpus.folder / "d.en", ["\ufeff" * (k == 9) + u for k, u in enumerate(sources)]),
        dev_target=write(corpus.folder / "d.de", targets),
    )
    assert prepared.dev_texts().sources == ("Emil  sees\u2028Anna. ", "\ufeffx", "a\rb")
    assert prepared.dev_texts().targets == tuple(targets)
    assert [pair[1] for pair in texts(prepared, "dev")] == ["Emil  sees\u2028Anna. ", "\ufeffx", "a b"]
    assert len(prepared.train) == 216
    assert not any("split off" in note for note in prepared.notes)


def test_training_pairs_that_are_in_a_given_dev_set_are_kept_and_counted(corpus: Corpus) -> None:
    prepared = corpus.prepare(
        dev_source=write(corpus.folder / "d.en", ENGLISH[:7]),
        dev_target=write(corpus.folder / "d.de", GERMAN[:7]),
    )
    assert len(prepared.train) == 216
    assert "7 training pairs have the text of a dev pair" in prepared.notes[0]


def test_blank_pairs_are_left_out_counted_and_named(corpus: Corpus) -> None:
    english, german = list(ENGLISH), list(GERMAN)
    english[3], german[9], english[20] = "", " \u3000\t", "\u2581"
    corpus.write(english, german)
    prepared = corpus.prepare()
    (entry,) = prepared.left_out.entries
    assert (entry.where, entry.reason, entry.count, entry.numbers) == (
        "train",
        "a side is blank",
        3,
        (4, 10, 21),
    )
    assert [(p.split, p.line) for p in prepared.left_out_pairs()] == [
        ("train", 4),
        ("train", 10),
        ("train", 21),
    ]
    assert "left out   train: 3, a side is blank: lines 4, 10, 21" in prepared.report
    assert not {4, 10, 21} & {line for line, _, _ in texts(prepared)}


def test_controls_that_are_no_white_space_are_text(corpus: Corpus) -> None:
    corpus.write([*ENGLISH, "\x1c"], [*GERMAN, "\u200b"])
    prepared = corpus.prepare()
    assert prepared.left_out.total == 0
    assert (217, "\x1c", "\u200b") in texts(prepared) + texts(prepared, "dev")


def test_too_long_pairs_are_left_out_counted_and_named(corpus: Corpus) -> None:
    english = list(ENGLISH)
    english[100] = "word " * 2_000
    corpus.write(english, GERMAN)
    dev = (
        write(corpus.folder / "d.en", ["word " * 2_000, "Anna."]),
        write(corpus.folder / "d.de", ["a", "Anna."]),
    )
    prepared = corpus.prepare(dev_source=dev[0], dev_target=dev[1])
    assert [(p.split, p.line) for p in prepared.left_out_pairs()] == [("train", 101), ("dev", 1)]
    assert prepared.dev_texts().sources == ("Anna.",)
    assert any("without 1 source lines" in note and note.endswith(": 101") for note in prepared.notes)


def test_the_limit_counts_the_eos(corpus: Corpus) -> None:
    most = int(
        max(corpus.prepare().train.source_lengths.max(), open_prepared(corpus.out).train.target_lengths.max())
    )
    exact = corpus.prepare(max_unit_tokens=most, out=corpus.folder / "exact")
    less = corpus.prepare(max_unit_tokens=most - 1, out=corpus.folder / "less")
    assert exact.left_out.total == 0
    assert less.left_out.total > 0


def test_unequal_counts_are_refused_before_anything_is_written(corpus: Corpus) -> None:
    corpus.write(ENGLISH, GERMAN[:-1])
    with pytest.raises(DataError, match=r"216.*215"):
        corpus.prepare()
    assert corpus.names() == ["t.de", "t.en"]


def test_unequal_dev_counts_are_refused_as_well(corpus: Corpus) -> None:
    with pytest.raises(DataError, match=r"has 2, .* has 1"):
        corpus.prepare(
            dev_source=write(corpus.folder / "d.en", ["a", "b"]),
            dev_target=write(corpus.folder / "d.de", ["a"]),
        )


def test_bad_bytes_are_refused_by_file_line_and_byte(corpus: Corpus) -> None:
    corpus.target.write_bytes(corpus.target.read_bytes().replace(b"Bert", b"B\xe4rt", 1))
    with pytest.raises(DataError, match="0xe4") as caught:
        corpus.prepare()
    assert "t.de" in str(caught.value.where)
    assert "line 2" in str(caught.value.where)
    assert corpus.names() == ["t.de", "t.en"]


def test_bad_bytes_can_skip_the_pair_or_be_replaced(corpus: Corpus) -> None:
    corpus.target.write_bytes(corpus.target.read_bytes().replace(b"Bert", b"B\xe4rt", 1))
    skipped = corpus.prepare(bad_bytes="skip")
    assert [(p.line, p.reason) for p in skipped.left_out_pairs()] == [(2, "not UTF-8")]
    replaced = corpus.prepare(bad_bytes="replace", out=corpus.folder / "replaced")
    assert replaced.left_out.total == 0
    found = {line: target for line, _, target in texts(replaced) + texts(replaced, "dev")}
    assert found[2] == "Anna sieht Anna und B\ufffdrt."


def test_entities_are_counted_and_unescaped_when_asked(corpus: Corpus) -> None:
    corpus.write([*ENGLISH, "it&apos;s &#10; it"], [*GERMAN, "&quot;ja&quot;"])
    kept = corpus.prepare()
    assert "2 training lines (0.5%) hold HTML entities, which were kept as they are" in kept.notes
    assert any("&apos;" in source for _, source, _ in texts(kept) + texts(kept, "dev"))
    plain = corpus.prepare(entities="unescape", out=corpus.folder / "plain")
    assert (217, "it's &#10; it", '"ja"') in texts(plain) + texts(plain, "dev")


def test_a_unit_that_unescaping_makes_blank_is_blank(corpus: Corpus) -> None:
    corpus.write([*ENGLISH, "&nbsp;"], [*GERMAN, "x"])
    assert corpus.prepare().left_out.total == 0
    plain = corpus.prepare(entities="unescape", out=corpus.folder / "plain")
    assert [(p.line, p.reason) for p in plain.left_out_pairs()] == [(217, "a side is blank")]


def test_columns_of_one_file(corpus: Corpus) -> None:
    rows = [f"{k}\t{g}\t{e}" for k, (e, g) in enumerate(zip(ENGLISH, GERMAN, strict=True))]
    table = write(corpus.folder / "train.en-de.tsv", rows)
    prepared = prepare(table, out=corpus.out, columns=(2, 1), vocab_size=300)
    assert (1, ENGLISH[0], GERMAN[0]) in texts(prepared) + texts(prepared, "dev")
    assert (prepared.source_language, prepared.target_language) == ("en", "de")


def test_languages_come_from_the_names_or_from_the_user(corpus: Corpus) -> None:
    prepared = corpus.prepare(target_language="nds")
    assert (prepared.source_language, prepared.target_language) == ("en", "nds")
    assert prepared.report.startswith("prepared corpus, en to nds\n")


def test_joint_and_separate_subwords(corpus: Corpus) -> None:
    joint = corpus.prepare()
    assert joint.joint
    assert joint.source_subwords is joint.target_subwords
    separate = corpus.prepare(joint=False, out=corpus.folder / "separate")
    assert not separate.joint
    assert separate.source_subwords.digest != separate.target_subwords.digest
    assert {"source.subwords.model", "target.subwords.model"} <= set(os.listdir(corpus.folder / "separate"))


def test_given_subwords_are_used_byte_for_byte(corpus: Corpus) -> None:
    first = corpus.prepare()
    given = corpus.out / "subwords.model"
    again = corpus.prepare(subwords=given, vocab_size=777, out=corpus.folder / "again")
    assert again.source_subwords.digest == first.source_subwords.digest
    assert (corpus.folder / "again" / "subwords.model").read_bytes() == given.read_bytes()
    both = corpus.prepare(subwords=(given, given), out=corpus.folder / "both")
    assert both.joint


def test_a_vocabulary_the_corpus_does_not_support_shrinks_and_is_said(corpus: Corpus) -> None:
    prepared = corpus.prepare(vocab_size=8_000)
    size = prepared.source_subwords.vocab_size
    assert size < 8_000
    assert any(f"the shared subwords have {size:,} entries, not 8,000" in note for note in prepared.notes)
    with pytest.raises(ConfigError, match="8000"):
        corpus.prepare(vocab_size=8_000, size_policy="exact", out=corpus.folder / "exact")


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"bad_bytes": "ignore"}, "bad_bytes"),
        ({"entities": "drop"}, "entities"),
        ({"size_policy": "any"}, "size_policy"),
        ({"overwrite": "yes"}, "overwrite"),
        ({"max_unit_tokens": 1}, "max_unit_tokens"),
        ({"seed": -1}, "seed"),
        ({"dev_size": 0}, "dev_size"),
        ({"dev_target": "d.de"}, "dev_source"),
        ({"dev_source": "d.en"}, "dev_target"),
        ({"dev_source": "d.en", "dev_target": "d.de", "dev_size": 3}, "dev_size"),
        ({"subwords": "subwords.model", "joint": False}, "subwords"),
        ({"subwords": ["a"]}, "subwords"),
    ],
)
def test_arguments_that_cannot_be_are_refused_by_name(
    corpus: Corpus, options: dict[str, Any], where: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        corpus.prepare(**options)
    assert caught.value.where == where
    assert corpus.names() == ["t.de", "t.en"]


def test_a_dev_set_as_large_as_the_corpus_is_refused(corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match="216 of 216"):
        corpus.prepare(dev_size=216)


def test_a_missing_file_is_named(corpus: Corpus) -> None:
    corpus.source.unlink()
    with pytest.raises(DataError, match="no such file") as caught:
        corpus.prepare()
    assert caught.value.where == str(corpus.source)


def test_what_is_no_subword_model_is_refused(corpus: Corpus) -> None:
    with pytest.raises(CheckpointError, match="not a SentencePiece model"):
        corpus.prepare(subwords=corpus.source)


@pytest.mark.parametrize("units", [[], ["", " "], ["x"]])
def test_a_corpus_with_nothing_to_use_is_refused(corpus: Corpus, units: list[str]) -> None:
    corpus.write(units, units)
    with pytest.raises((ConfigError, DataError), match="dev set|train set"):
        corpus.prepare()
    assert corpus.names() == ["t.de", "t.en"]


def test_a_training_set_with_nothing_to_use_says_why(corpus: Corpus) -> None:
    corpus.write(["", " "], ["a", "b"])
    dev = write(corpus.folder / "d", ["x"])
    with pytest.raises(DataError, match=r"train set: .*2 left out, a side is blank: 1, 2"):
        corpus.prepare(dev_source=dev, dev_target=dev)


def test_all_too_long_leaves_nothing_behind(corpus: Corpus) -> None:
    with pytest.raises(DataError, match="all have over 3 tokens"):
        corpus.prepare(max_unit_tokens=3)
    assert corpus.names() == ["t.de", "t.en"]


def test_a_directory_in_the_way_is_not_touched(corpus: Corpus) -> None:
    corpus.out.mkdir()
    (corpus.out / "precious").write_text("x")
    for overwrite in ("refuse", "replace"):
        with pytest.raises(DataError) as caught:
            corpus.prepare(overwrite=overwrite)
        assert str(corpus.out) in str(caught.value.where)
    assert os.listdir(corpus.out) == ["precious"]


def test_a_file_in_the_way_is_not_touched(corpus: Corpus) -> None:
    corpus.out.write_text("x")
    with pytest.raises(DataError, match="a file is where"):
        corpus.prepare(overwrite="replace")
    assert corpus.out.read_text() == "x"


def test_an_empty_directory_is_taken(corpus: Corpus) -> None:
    corpus.out.mkdir()
    prepared = corpus.prepare()
    prepared.verify()
    assert len(prepared.train) > 0


def test_a_prepared_directory_is_replaced_only_when_asked_and_only_when_it_holds_nothing_else(
    corpus: Corpus,
) -> None:
    first = corpus.prepare(seed=1)
    with pytest.raises(DataError, match="not empty"):
        corpus.prepare(seed=2)
    (corpus.out / "notes").write_text("mine")
    with pytest.raises(DataError, match="did not write: notes"):
        corpus.prepare(seed=2, overwrite="replace")
    (corpus.out / "notes").unlink()
    second = corpus.prepare(seed=2, overwrite="replace")
    second.verify()
    assert second.manifest != first.manifest
    assert corpus.names() == ["prepared", "t.de", "t.en"]


@pytest.mark.parametrize("stage", ["reading", "learning subwords", "encoding"])
def test_stopping_at_any_stage_leaves_nothing(corpus: Corpus, stage: str) -> None:
    def stop(progress: Progress) -> None:
        if progress.stage == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corpus.prepare(on_progress=stop)
    assert corpus.names() == ["t.de", "t.en"]


def test_stopping_while_replacing_leaves_the_old(corpus: Corpus) -> None:
    corpus.prepare()
    before = {path.name: path.read_bytes() for path in corpus.out.iterdir()}

    def stop(progress: Progress) -> None:
        if progress.stage == "encoding":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corpus.prepare(seed=2, overwrite="replace", on_progress=stop)
    assert {path.name: path.read_bytes() for path in corpus.out.iterdir()} == before


def test_progress_goes_through_the_stages_to_the_end(corpus: Corpus) -> None:
    heard: list[Progress] = []
    corpus.prepare(on_progress=heard.append)
    assert list(dict.fromkeys(p.stage for p in heard)) == ["reading", "learning subwords", "encoding"]
    assert heard[-1].done == heard[-1].total == 216


def test_a_text_that_changes_between_the_passes_is_refused(corpus: Corpus) -> None:
    def shorten(progress: Progress) -> None:
        if progress.stage == "learning subwords":
            corpus.write(ENGLISH[:50], GERMAN[:50])

    with pytest.raises(DataError, match="changed"):
        corpus.prepare(on_progress=shorten)
    assert corpus.names() == ["t.de", "t.en"]


@pytest.mark.parametrize(
    "name", ["subwords.model", "dev.source.txt", "train.source.ids.npy", "report.txt", "left-out.tsv"]
)
def test_damage_is_found_and_named(corpus: Corpus, name: str) -> None:
    english = ["", *ENGLISH]
    corpus.write(english, ["x", *GERMAN])
    prepared = corpus.prepare()
    path = corpus.out / name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        prepared.verify()
    path.unlink()
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        open_prepared(corpus.out)


def test_a_changed_subword_model_is_refused_on_opening(corpus: Corpus) -> None:
    corpus.prepare()
    path = corpus.out / "subwords.model"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"subwords\.model"):
        open_prepared(corpus.out)


def test_a_manifest_without_vocabularies_is_refused(corpus: Corpus) -> None:
    corpus.prepare()
    path = corpus.out / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["vocabularies"] = {}
    path.write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="no subwords for the source"):
        open_prepared(corpus.out)


def test_several_files_a_side_are_one_text(corpus: Corpus) -> None:
    more = write(corpus.folder / "more.en", ["More text."]), write(corpus.folder / "more.de", ["Mehr Text."])
    prepared = prepare([corpus.source, more[0]], [corpus.target, more[1]], out=corpus.out, vocab_size=300)
    assert (217, "More text.", "Mehr Text.") in texts(prepared) + texts(prepared, "dev")


def test_ids_never_hold_a_control_but_the_eos(corpus: Corpus) -> None:
    corpus.write([*ENGLISH, "<pad> </s> <s> <unk>"], [*GERMAN, "</s></s>"])
    prepared = corpus.prepare()
    for shards in (prepared.train, prepared.dev):
        for ids, offsets in (
            (shards.source_ids, shards.source_offsets),
            (shards.target_ids, shards.target_offsets),
        ):
            is_eos = ids == Subwords.EOS_ID
            assert np.flatnonzero(is_eos).tolist() == (offsets[1:] - 1).tolist()
            assert not np.isin(ids, [Subwords.PAD_ID, Subwords.BOS_ID, Subwords.UNK_ID]).any()


def test_preparing_needs_no_torch() -> None:
    code = "import sys, dragoman.data.prepare; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
