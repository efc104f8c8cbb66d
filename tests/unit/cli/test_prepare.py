"""`dragoman prepare` from the command line."""

from __future__ import annotations

import gzip

import pytest
from command_line import done, everything_in, refused, word_pairs, write_lines

from dragoman.data.prepared import open_prepared


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Two files of 60 lines, no two alike: those with the text of a dev pair would be left out."""
    folder = tmp_path_factory.mktemp("texts")
    pairs = list(dict.fromkeys(word_pairs(200, seed=1)))[:60]
    assert len(pairs) == 60
    source = write_lines(folder / "a.en", [s for s, _ in pairs])
    return source, write_lines(folder / "a.de", [t for _, t in pairs])


SMALL = ("--vocab-size", 320)


def test_two_files_become_a_prepared_corpus(lab):
    corpus = open_prepared(lab.prepared)
    assert (len(corpus.train), len(corpus.dev)) == (300, 20)
    assert (corpus.source_language, corpus.target_language) == ("en", "xx")
    assert corpus.joint
    sources, targets = (path.read_text(encoding="utf-8").splitlines() for path in (lab.source, lab.target))
    for k in (0, 7, 299):
        assert corpus.source_subwords.decode(corpus.train.source(k).tolist()) == sources[k]
        assert corpus.target_subwords.decode(corpus.train.target(k).tolist()) == targets[k]


def test_the_report_and_the_next_command_go_to_standard_error(texts, tmp_path):
    result = done("prepare", *texts, "--out", tmp_path / "p", *SMALL)
    assert result.out == b""
    assert "read       60 pairs" in result.err
    assert "no dev set was given" in result.err
    assert f"next: dragoman train {tmp_path / 'p'} --out run" in result.err


def test_json_is_the_manifest(texts, tmp_path):
    result = done("prepare", *texts, "--out", tmp_path / "p", *SMALL, "--dev-size", 5, "--json")
    manifest = result.json
    assert (manifest["splits"]["train"]["pairs"], manifest["splits"]["dev"]["pairs"]) == (55, 5)
    assert result.err == ""


def test_without_a_vocabulary_size_one_is_chosen(texts, tmp_path):
    done("prepare", *texts, "--out", tmp_path / "p")
    assert open_prepared(tmp_path / "p").target_subwords.vocab_size > 256


def test_the_dev_set_follows_the_seed(texts, tmp_path):
    devs = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        done("prepare", *texts, "--out", tmp_path / name, *SMALL, "--dev-size", 9, "--seed", seed)
        devs.append((tmp_path / name / "dev.source.txt").read_bytes())
    assert devs[0] == devs[1] != devs[2]


def test_a_file_of_two_columns_and_standard_input(texts, tmp_path):
    source, target = (path.read_text(encoding="utf-8").splitlines() for path in texts)
    table = "".join(f"{s}\t{t}\n" for s, t in zip(source, target, strict=True)).encode()
    (tmp_path / "both.tsv.gz").write_bytes(gzip.compress(table))
    languages = ("--source-language", "en", "--target-language", "de")
    done("prepare", tmp_path / "both.tsv.gz", "--out", tmp_path / "file", *SMALL, *languages)
    done("prepare", "-", "--out", tmp_path / "pipe", *SMALL, *languages, stdin=table)
    names = ("train.source.ids.npy", "train.target.ids.npy", "dev.target.txt")
    for name in names:
        assert (tmp_path / "file" / name).read_bytes() == (tmp_path / "pipe" / name).read_bytes()
    assert open_prepared(tmp_path / "file").target_language == "de"


def test_separate_and_given_vocabularies(texts, tmp_path, lab):
    done("prepare", *texts, "--out", tmp_path / "two", "--separate", "--vocab-size", 290)
    assert not open_prepared(tmp_path / "two").joint
    given = lab.prepared / "subwords.model"
    done("prepare", *texts, "--out", tmp_path / "given", "--subwords", given)
    assert open_prepared(tmp_path / "given").source_subwords == open_prepared(lab.prepared).source_subwords
    models = [tmp_path / "two" / f"{side}.subwords.model" for side in ("source", "target")]
    subwords = [part for model in models for part in ("--subwords", model)]
    done("prepare", *texts, "--out", tmp_path / "again", "--separate", *subwords)
    assert not open_prepared(tmp_path / "again").joint
    assert "given 3 times" in refused(
        2, "prepare", *texts, "--out", tmp_path / "x", *subwords, "--subwords", given
    )


def test_entities_are_kept_or_unescaped(tmp_path):
    source = write_lines(tmp_path / "a.en", [f"this &amp; that {n}" for n in range(30)])
    target = write_lines(tmp_path / "a.de", [f"dies &amp; das {n}" for n in range(30)])
    for choice, found in (("keep", "&amp;"), ("unescape", " & ")):
        out = tmp_path / choice
        done("prepare", source, target, "--out", out, *SMALL, "--entities", choice)
        corpus = open_prepared(out)
        assert found in corpus.source_subwords.decode(corpus.train.source(0).tolist())


def test_it_replaces_its_own_directory_only_when_asked(texts, tmp_path):
    out = tmp_path / "p"
    done("prepare", *texts, "--out", out, *SMALL)
    before = (out / "manifest.json").read_bytes()
    assert "not empty" in refused(3, "prepare", *texts, "--out", out, *SMALL)
    assert (out / "manifest.json").read_bytes() == before
    done("prepare", *texts, "--out", out, *SMALL, "--overwrite", "--seed", 5)
    assert (out / "manifest.json").read_bytes() != before
    (out / "mine.txt").write_text("mine", encoding="utf-8")
    assert "mine.txt" in refused(3, "prepare", *texts, "--out", out, *SMALL, "--overwrite")
    (out / "manifest.json").unlink()
    message = refused(3, "prepare", *texts, "--out", out, *SMALL, "--overwrite")
    assert "was not written by prepare" in message
    assert "move this one away" in message


@pytest.fixture
def broken(texts, tmp_path):
    """Files that are wrong, each in its way."""
    source, target = texts
    (tmp_path / "short.de").write_bytes(b"".join(target.read_bytes().splitlines(keepends=True)[:-1]))
    lines = target.read_bytes().splitlines(keepends=True)
    (tmp_path / "latin.de").write_bytes(b"".join([lines[0], "für\n".encode("latin-1"), *lines[2:]]))
    (tmp_path / "empty.de").write_bytes(b"")
    (tmp_path / "cut.de.gz").write_bytes(gzip.compress(target.read_bytes())[:-9])
    (tmp_path / "noise.model").write_bytes(b"no model")
    return source, tmp_path


@pytest.mark.parametrize(
    ("target", "options", "code", "said"),
    [
        ("missing.de", (), 3, ["missing.de", "no such file"]),
        (".", (), 3, ["directory"]),
        ("short.de", (), 3, ["short.de", "60", "59"]),
        ("latin.de", (), 3, ["latin.de", "line 2", "0xfc"]),
        ("empty.de", (), 3, ["empty.de", "60", "0"]),
        ("cut.de.gz", (), 3, ["cut.de.gz", "damaged"]),
        ("ok", ("--vocab-size", "5"), 2, ["vocab-size"]),
        ("ok", ("--dev-size", "0"), 2, ["dev_size"]),
        ("ok", ("--dev-size", "60"), 2, ["60 of 60"]),
        ("ok", ("--dev-source", "x"), 2, ["dev"]),
        ("ok", ("--bad-bytes", "frob"), 2, ["bad-bytes"]),
        ("ok", ("--subwords", "noise.model"), 4, ["noise.model"]),
        ("ok", ("--subwords", "noise.model", "--vocab-size", "100"), 2, ["--vocab-size"]),
        ("ok", ("--subwords", "missing.model"), 4, ["missing.model"]),
    ],
)
def test_bad_input_is_refused_in_words_and_leaves_nothing(broken, texts, target, options, code, said):
    source, folder = broken
    before = everything_in(folder)
    file = texts[1] if target == "ok" else folder / target
    options = tuple(folder / option if option.endswith(".model") else option for option in options)
    message = refused(code, "prepare", source, file, "--out", folder / "out", *options)
    assert all(part in message for part in said), message
    assert everything_in(folder) == before


def test_pairs_with_bad_bytes_are_skipped_or_mended(broken):
    source, folder = broken
    result = done(
        "prepare", source, folder / "latin.de", "--out", folder / "s", *SMALL, "--bad-bytes", "skip"
    )
    assert "read       60 pairs" in result.err
    assert len(open_prepared(folder / "s").train) + len(open_prepared(folder / "s").dev) == 59
    done("prepare", source, folder / "latin.de", "--out", folder / "r", *SMALL, "--bad-bytes", "replace")
    assert len(open_prepared(folder / "r").train) + len(open_prepared(folder / "r").dev) == 60


def test_only_lf_ends_a_line(tmp_path):
    odd = ["a\u2028b", "c\x0bd", "e\x0cf", "g\x85h", "i\x1cj", "k\rl", "m n"]
    source = write_lines(tmp_path / "a.en", [unit for unit in odd for _ in range(5)])
    target = write_lines(tmp_path / "a.de", [f"zeile {n}" for n in range(35)])
    result = done("prepare", source, target, "--out", tmp_path / "p", *SMALL, "--dev-size", 2, "--json")
    splits = result.json["splits"]
    assert splits["train"]["pairs"] + splits["dev"]["pairs"] == 35
