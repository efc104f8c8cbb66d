"""`dragoman translate` from the command line: N lines in, N lines out, whatever the lines are."""

from __future__ import annotations

import gzip
import io
import os
import selectors
import shutil
import signal
import subprocess
from dataclasses import replace

import pytest
from command_line import (
    PATIENCE_SECONDS,
    done,
    dragoman,
    everything_in,
    finish,
    finish_after,
    refused,
    start,
    strict_json,
    write_lines,
)

from dragoman.bundle import open_bundle, write_bundle
from dragoman.cli import talk
from dragoman.cli.units import RUN_UNITS
from dragoman.translator import Translator


@pytest.fixture(scope="module")
def translator(lab):
    return Translator.load(lab.model)


@pytest.fixture(scope="module")
def expected(lab, translator):
    """The dev sources and what the Python interface makes of them."""
    units = lab.dev_source.read_text(encoding="utf-8").splitlines()
    return units, [translation.text for translation in translator.translate(units)]


def test_the_model_says_something_and_not_always_the_same(expected):
    assert len(set(expected[1])) > 5
    assert all(text.strip() for text in expected[1])


def test_file_pipe_dash_output_file_and_python_agree(lab, expected, tmp_path):
    text = lab.dev_source.read_bytes()
    wanted = expected[1]
    assert done("translate", lab.run, lab.dev_source).lines == wanted
    assert done("translate", lab.model, stdin=text).lines == wanted
    assert done("translate", lab.run, "-", stdin=text).lines == wanted
    result = done("translate", lab.run, lab.dev_source, "--out", tmp_path / "out.txt")
    assert (result.out, result.err) == (b"", "20 lines\n")
    assert (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines() == wanted
    done("translate", lab.run, lab.dev_source, "-o", tmp_path / "out.txt.gz")
    assert gzip.decompress((tmp_path / "out.txt.gz").read_bytes()) == (tmp_path / "out.txt").read_bytes()


def test_a_file_longer_than_a_run_is_translated_in_order(lab, expected, tmp_path):
    units, texts = expected
    times = RUN_UNITS // len(units) + 1
    file = write_lines(tmp_path / "long.txt", units * times)
    assert done("translate", lab.run, file).lines == texts * times


@pytest.mark.parametrize(
    ("data", "units"),
    [
        (b"", 0),
        (b"one\n", 1),
        (b"one", 1),
        (b"\n", 1),
        (b"\n\n\n", 3),
        (b"one two\n\n   \n\t\n\xc2\xa0\n\xe3\x80\x80\nthree\n\n", 8),
        (b"one\r\ntwo\r\n\r\nthree", 4),
        (b"one\rtwo\nthree\n", 2),
        ("one\u2028two\u2029three\x85four\n\x0b\nfive\x0csix\x1cseven\n".encode(), 3),
        (b"one\x00two\n\x00\nthree\n", 3),
        ("\ufeffone two\nthree \ufeff four\n".encode(), 2),
        (b"\xf0\x9f\x98\x80 \xe2\x96\x81one\n\xe2\x80\x8b\n", 2),
    ],
    ids=[
        "empty",
        "one",
        "no-lf",
        "blank",
        "blanks",
        "white",
        "crlf",
        "cr",
        "separators",
        "nul",
        "bom",
        "odd",
    ],
)
def test_as_many_lines_come_out_as_go_in(lab, tmp_path, data, units):
    file = tmp_path / "in.txt"
    file.write_bytes(data)
    from_file = done("translate", lab.run, file)
    assert len(from_file.lines) == units
    assert done("translate", lab.run, stdin=data).out == from_file.out
    if units:
        # Warnings may stand before it: a model that has learned nothing may go on to the limit of length.
        said = done("translate", lab.run, file, "--out", tmp_path / "out.txt").err.splitlines()
        assert said[-1].startswith(f"{units} lines")
        assert (tmp_path / "out.txt").read_bytes() == from_file.out


def test_blank_lines_stay_blank_and_their_neighbors_as_they_are_alone(lab, expected):
    units, texts = expected
    text = f"{units[0]}\n\n   \n\t\n\u00a0\u00a0\n\u3000\n{units[1]}\n\r\n{units[2]}\n\n"
    lines = done("translate", lab.run, stdin=text.encode()).lines
    assert len(lines) == 10
    assert [k for k, line in enumerate(lines) if not line.strip()] == [1, 2, 3, 4, 5, 7, 9]
    assert [lines[k] for k in (0, 6, 8)] == texts[:3]


@pytest.mark.parametrize("count", [1, 3])
def test_blank_lines_with_n_best_and_json(lab, count):
    result = done("translate", lab.run, "--n-best", count, "--json", stdin=b"one\n  \n\ntwo\n")
    blank = result.records[1:3]
    assert [record["text"].strip() for record in blank] == ["", ""]
    assert [record["score"] for record in blank] == [0.0, 0.0]
    assert [record["pieces"] for record in blank] == [[], []]
    # n-best gives as many of each unit as asked for, of a blank one too.
    lines = done("translate", lab.run, "--n-best", 3, stdin=b"one\n  \ntwo\n").lines
    assert [line.split("\t")[0] for line in lines] == ["1"] * 3 + ["2"] * 3 + ["3"] * 3
    assert [line.split("\t", 1)[1].strip() for line in lines[3:6]] == ["0.0000"] * 3


@pytest.mark.parametrize(
    "long",
    ["one two three " * 7200, "x" * 20_000, "\u7ffb\u8a33" * 4_000],
    ids=["100 kB", "no space", "no space, three bytes each"],
)
def test_a_line_too_long_for_the_model_is_split_and_said(lab, expected, long):
    units = expected[0]
    text = f"{units[0]}\n{units[1]}\n{long}\n{units[2]}\n"
    result = done("translate", lab.run, "--beam-size", 1, stdin=text.encode())
    assert len(result.lines) == 4
    assert [result.lines[k] for k in (0, 1, 3)] == [
        done("translate", lab.run, "--beam-size", 1, stdin=f"{units[k]}\n".encode()).lines[0]
        for k in range(3)
    ]
    assert "warning: line 3 is too long for the model and was translated in parts: " in result.err
    assert long[:40] + "..." in result.err
    assert len(result.err) < 500


def test_what_was_split_and_cut_is_counted_at_the_end(lab, tmp_path):
    file = write_lines(tmp_path / "in.txt", ["one", "x" * 400, "two"])
    result = done("translate", lab.run, file, "--out", tmp_path / "out.txt")
    last = result.err.splitlines()[-1]
    assert last.startswith("3 lines")
    assert "1 split" in last
    cut = result.err.count("cut at the length limit")
    assert (f"{cut} truncated" in last) == bool(cut)


def test_a_cut_translation_is_said_and_flagged(lab, monkeypatch):
    real = Translator.translate

    def cut(self, units, **options):
        return [replace(translation, truncated=True) for translation in real(self, units, **options)]

    monkeypatch.setattr(Translator, "translate", cut)
    result = done("translate", lab.run, "--json", stdin=b"one\n\x1b[31mtwo\n")
    assert [record["flags"] for record in result.records] == [["truncated"]] * 2
    assert "warning: line 1: the translation was cut at the length limit: one" in result.err
    assert "limit: \\x1b[31mtwo" in result.err


def test_json_is_one_object_a_line(lab, expected, translator):
    units, texts = expected
    result = done("translate", lab.run, lab.dev_source, "--json")
    assert [record["source"] for record in result.records] == units
    assert [record["text"] for record in result.records] == texts
    for record in result.records:
        assert set(record) == {
            *("source", "text", "score", "log_probability", "pieces", "flags", "parts", "alternatives"),
        }
        assert record["score"] <= 0.0
        assert record["parts"] == 1
        ids = translator.target_subwords.ids_of(record["pieces"])
        assert translator.target_subwords.decode(ids) == record["text"]


def test_json_keeps_odd_characters(lab):
    text = 'a\u2028b "\\ \x00 \u00fc'
    [record] = done("translate", lab.run, "--json", stdin=text.encode()).records
    assert record["source"] == text


def test_n_best_gives_unit_score_and_text(lab, expected):
    texts = expected[1]
    result = done("translate", lab.run, lab.dev_source, "--n-best", 3)
    rows = [line.split("\t") for line in result.lines]
    assert [int(row[0]) for row in rows] == [number for number in range(1, 21) for _ in range(3)]
    assert [row[2] for row in rows[::3]] == texts
    for k in range(0, 60, 3):
        scores = [float(row[1]) for row in rows[k : k + 3]]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(row[1:]) for row in rows[k : k + 3]}) == 3
    records = done("translate", lab.run, lab.dev_source, "--n-best", 3, "--json").records
    assert [record["text"] for record in records] == texts
    assert [[other["text"] for other in record["alternatives"]] for record in records] == [
        [row[2] for row in rows[k + 1 : k + 3]] for k in range(0, 60, 3)
    ]


def test_options_of_the_search_reach_it(lab, translator):
    units = lab.dev_source.read_text(encoding="utf-8").splitlines()
    greedy = [t.text for t in translator.translate(units, beam_size=1)]
    assert done("translate", lab.run, lab.dev_source, "--beam-size", 1).lines == greedy
    result = done("translate", lab.run, lab.dev_source, "--alpha", 0, "--json")
    for record in result.records:
        assert record["score"] == pytest.approx(record["log_probability"])
    result = done(
        "translate", lab.run, lab.dev_source, "--precision", "bf16", "--threads", 1, "--device", "cpu"
    )
    assert len(result.lines) == 20


def test_the_exact_engine_is_there_to_compare_with(lab):
    lines = done("translate", lab.run, lab.dev_source, "--engine", "exact").lines
    same = sum(map(str.__eq__, lines, done("translate", lab.run, lab.dev_source).lines))
    assert (len(lines), same >= 18) == (20, True)  # hardly trained: a tie now and then


def test_beam_and_alpha_are_those_of_the_models_recipe_unless_given(lab, tmp_path):
    bundle, changed = open_bundle(lab.model), tmp_path / "changed"
    recipe = bundle.facts.recipe.with_changes(["search.beam_size=2", "search.alpha=1.5"])
    write_bundle(changed, replace(bundle.facts, recipe=recipe), bundle.weights(), step=bundle.manifest.step)
    given = ("--beam-size", 2, "--alpha", 1.5)
    wanted = done("translate", lab.run, lab.dev_source, "--json", *given)
    found = done("translate", changed, lab.dev_source, "--json")
    assert found.out == wanted.out
    assert found.out != done("translate", lab.run, lab.dev_source, "--json").out
    pieces = tmp_path / "pieces.jsonl"
    pieces.write_bytes(found.out)
    scores = [record["score"] for record in done("score", changed, pieces, "--pieces", "--json").records]
    assert scores == pytest.approx([record["score"] for record in found.records], abs=1e-4)
    evaluated = done("evaluate", changed, lab.dev_source, lab.dev_target, "--json").json
    assert "|beam:2|alpha:1.5|" in evaluated[0]["signature"]


def test_a_text_is_not_written_over_by_its_translation(lab, tmp_path):
    text = tmp_path / "text"
    shutil.copy(lab.dev_source, text)
    (tmp_path / "link").symlink_to(text)
    for out in ("text", "link"):
        assert "would be lost" in refused(2, "translate", lab.run, text, "--out", tmp_path / out)
        assert "would be lost" in refused(
            2, "evaluate", lab.run, lab.dev_target, text, "--out", tmp_path / out
        )
    assert text.read_bytes() == lab.dev_source.read_bytes()


def test_a_model_that_says_nothing_is_told(lab, monkeypatch):
    real = Translator.translate

    def mute(self, units, **options):
        return [replace(translation, text="") for translation in real(self, units, **options)]

    assert "empty" not in done("translate", lab.run, lab.dev_source).err
    monkeypatch.setattr(Translator, "translate", mute)
    assert "warning: 2 of 3 translations are empty" in done("translate", lab.run, stdin=b"one\n\ntwo\n").err


def test_sampling_follows_its_seed_whatever_the_runs(lab, tmp_path):
    command = ("translate", lab.run, lab.dev_source, "--sample", "--temperature", 2.0)
    first = done(*command, "--seed", 5).out
    assert done(*command, "--seed", 5).out == first
    assert done(*command, "--seed", 6).out != first
    assert (
        done("translate", lab.run, *command[3:], "--seed", 5, stdin=lab.dev_source.read_bytes()).out == first
    )
    # From the most probable token alone every draw is greedy.
    greedy = done("translate", lab.run, lab.dev_source, "--beam-size", 1).out
    assert done(*command, "--top-k", 1).out == greedy
    assert done(*command, "--top-p", 1e-6).out == greedy
    rows = [line.split("\t") for line in done(*command, "--n-best", 2).lines]
    assert [int(row[0]) for row in rows] == [number for number in range(1, 21) for _ in range(2)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--n-best", 5], "beam_size"),
        (["--alpha", "nan"], "alpha"),
        (["--device", "cuda:99"], "cuda:99"),
        (["--sample", "--temperature", 0], "temperature"),
        (["--sample", "--beam-size", 4], "--beam-size"),
        (["--beam-size", 1001], "beam-size"),
        (["--threads", 1025], "threads"),
        (["--out", ""], "is empty"),
        (["--sample", "--top-p", 2], "top_p"),
    ],
)
def test_options_that_are_not_usable_are_refused(lab, tmp_path, options, said):
    message = refused(2, "translate", lab.run, lab.dev_source, "--out", tmp_path / "out.txt", *options)
    assert said in message
    assert everything_in(tmp_path) == []


def test_bytes_that_are_not_utf8_are_refused_or_replaced(lab, tmp_path):
    data = b"one\nf\xfcr\ntwo\n"
    (tmp_path / "latin.txt").write_bytes(data)
    result = dragoman("translate", lab.run, tmp_path / "latin.txt", "--out", tmp_path / "out.txt")
    assert (result.code, result.out) == (3, b"")
    assert all(part in result.err for part in ("latin.txt", "line 2", "0xfc"))
    assert everything_in(tmp_path) == ["latin.txt"]
    message = refused(3, "translate", lab.run, stdin=data)
    assert "line 2" in message
    result = done("translate", lab.run, "--bad-bytes", "replace", "--json", stdin=data)
    assert [record["source"] for record in result.records] == ["one", "f\ufffdr", "two"]
    assert "bad-bytes" in refused(2, "translate", lab.run, "--bad-bytes", "skip", stdin=data)


def test_bad_bytes_late_in_a_file_are_told_before_a_line_is_written(lab, tmp_path):
    """A run is 500 lines: all of the file is looked at before the first is translated."""
    (tmp_path / "late.txt").write_bytes(b"one\n" * 600 + b"\xff\n")
    result = dragoman("translate", lab.run, tmp_path / "late.txt")
    assert (result.code, result.out) == (3, b"")
    assert "line 601" in result.err


def test_an_output_that_was_there_stays_when_the_input_fails(lab, tmp_path):
    (tmp_path / "out.txt").write_text("before\n", encoding="utf-8")
    (tmp_path / "latin.txt").write_bytes(b"one\n\xff\n")
    refused(3, "translate", lab.run, tmp_path / "latin.txt", "--out", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "before\n"
    assert everything_in(tmp_path) == ["latin.txt", "out.txt"]


def test_what_is_missing_is_named(lab, tmp_path):
    assert "nowhere" in refused(4, "translate", tmp_path / "nowhere", lab.dev_source)
    refused(4, "translate", tmp_path, lab.dev_source)
    refused(4, "translate", lab.recipe, lab.dev_source)
    assert "missing.txt" in refused(3, "translate", lab.run, tmp_path / "missing.txt")
    assert "directory" in refused(3, "translate", lab.run, tmp_path)
    out = tmp_path / "no" / "out.txt"
    assert str(out) in refused(3, "translate", lab.run, lab.dev_source, "--out", out)
    assert everything_in(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "subwords.model", "recipe.toml", "manifest.json"]
)
@pytest.mark.parametrize("damage", ["gone", "empty", "one bit", "one byte more"])
def test_a_damaged_model_is_refused_by_name(lab, tmp_path, name, damage):
    model = shutil.copytree(lab.model, tmp_path / "model")
    file = model / name
    data = bytearray(file.read_bytes())
    match damage:
        case "gone":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
        case "one bit":
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
        case _:
            file.write_bytes(data + b" ")
    message = refused(4, "translate", model, stdin=b"one\n")
    assert name in message or str(model) in message


def test_the_end_of_a_bar_does_not_stand_in_the_output(lab, monkeypatch):
    monkeypatch.setattr(talk, "is_watched", lambda: True)
    result = done("translate", lab.run, lab.dev_source)
    assert len(result.lines) == 20
    assert "\x1b" not in result.text


def test_a_pipe_is_answered_line_by_line(lab, expected):
    """Each line is written after the answer to the one before was read; then Ctrl-C ends it quietly."""
    units, texts = expected
    with start("translate", lab.run) as process:
        for unit, text in [*list(zip(units, texts, strict=True))[:4], ("", ""), ("  ", None)]:
            process.stdin.write(f"{unit}\n".encode())
            process.stdin.flush()
            answer = read_line(process)
            assert answer.strip() == "" if text is None else answer == f"{text}\n"
        result = finish_after(process, signal.SIGINT)
    assert (result.code, result.out, result.err) == (130, b"", "dragoman: stopped\n")


def read_line(process: subprocess.Popen[bytes]) -> str:
    """A line of the answer, or a failure in good time."""
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(PATIENCE_SECONDS):
                process.kill()
                raise AssertionError(f"no answer, only {line!r}")
            byte = os.read(process.stdout.fileno(), 1)
            assert byte, process.stderr.read().decode()
            line += byte
    return line.decode()


def test_a_reader_that_goes_away_is_no_error(lab):
    with start("translate", lab.run) as process:
        process.stdin.write(b"one\n")
        process.stdin.flush()
        read_line(process)
        process.stdout.close()
        process.stdin.write(b"two\n")
        process.stdin.flush()
        assert process.wait(PATIENCE_SECONDS) == 141
        assert process.stderr.read() == b""


def test_sigterm_leaves_no_half_written_file(lab, tmp_path):
    with start("translate", lab.run, "--out", tmp_path / "out.txt") as process:
        process.stdin.write(b"one\n")
        process.stdin.flush()
        wait_for(lambda: everything_in(tmp_path), process)
        result = finish_after(process, signal.SIGTERM)
    assert (result.code, result.err) == (143, "")
    assert everything_in(tmp_path) == []


def wait_for(condition, process):
    import time

    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.02)


def test_two_commands_make_a_pipeline(lab, expected, tmp_path):
    """A named pipe as SOURCE, and JSON read back by another verb."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = start("translate", lab.run, pipe, "--json", stdin=subprocess.DEVNULL)
    with open(pipe, "wb") as stream:
        stream.write(lab.dev_source.read_bytes())
    result = finish(process)
    assert result.code == 0, result.err
    records = [strict_json(line) for line in io.StringIO(result.text)]
    assert [record["text"] for record in records] == expected[1]


@pytest.mark.parametrize("option", [("--top-k", 5), ("--top-p", 0.5), ("--temperature", 2.0), ("--seed", 1)])
def test_options_of_sampling_are_refused_without_it(lab, option):
    assert "--sample" in refused(2, "translate", lab.run, *option, stdin=b"one\n")


def test_a_prepared_corpus_is_no_model(lab):
    assert "prepared corpus, not a model" in refused(4, "translate", lab.prepared, stdin=b"one\n")
