"""`dragoman score` from the command line."""

from __future__ import annotations

import json

import pytest
from command_line import done, refused, write_lines

from dragoman.translator import Translator


def test_a_number_a_line_as_python_gives_it(lab):
    translator = Translator.load(lab.model)
    sources, targets = (
        path.read_text(encoding="utf-8").splitlines() for path in (lab.dev_source, lab.dev_target)
    )
    result = done("score", lab.run, lab.dev_source, lab.dev_target)
    found = [float(line) for line in result.lines]
    assert found == pytest.approx(translator.score(sources, targets), abs=1e-5)
    assert len(set(found)) > 5
    result = done("score", lab.run, lab.dev_source, lab.dev_target, "--alpha", 0, "--json")
    assert [record["line"] for record in result.records] == list(range(1, 21))
    plain = translator.score(sources, targets, alpha=0.0)
    assert [record["score"] for record in result.records] == pytest.approx(plain, abs=1e-5)


@pytest.mark.parametrize("alpha", [0.6, 0.0, 1.0])
def test_pieces_reproduce_what_translate_reported(lab, tmp_path, alpha):
    text = lab.dev_source.read_bytes() + b"\n  \none two three four\n\x00 \xc3\xbc\n"
    output = tmp_path / "out.jsonl"
    (tmp_path / "in.txt").write_bytes(text)
    done("translate", lab.run, tmp_path / "in.txt", "--json", "--alpha", alpha, "--out", output)
    records = [json.loads(line) for line in output.read_text(encoding="utf-8").split("\n")[:-1]]
    result = done("score", lab.run, output, "--pieces", "--alpha", alpha)
    assert len(result.lines) == len(records) == 24
    whole = [k for k, record in enumerate(records) if not record["flags"]]
    assert len(whole) >= 22
    for k in whole:
        assert float(result.lines[k]) == pytest.approx(records[k]["score"], abs=1e-4)
    from_pipe = done("score", lab.run, "-", "--pieces", "--alpha", alpha, stdin=output.read_bytes())
    assert from_pipe.out == result.out


def test_what_cannot_be_reproduced_is_said(lab, tmp_path):
    file = write_lines(tmp_path / "in.txt", ["one", "x" * 400])
    out = tmp_path / "out.jsonl"
    done("translate", lab.run, file, "--json", "--out", out)
    result = done("score", lab.run, out, "--pieces")
    assert "warning: line 2 was " in result.err
    assert "split" in result.err
    assert "line 1" not in result.err


def test_blank_pairs_score_nothing(lab, tmp_path):
    source = write_lines(tmp_path / "a", ["one", "", " "])
    target = write_lines(tmp_path / "b", ["een", "", "\t"])
    lines = done("score", lab.run, source, target).lines
    assert lines[1:] == ["0.000000", "0.000000"]
    assert float(lines[0]) < 0.0


def test_an_empty_text_has_no_scores(lab, tmp_path):
    empty = write_lines(tmp_path / "empty", [])
    assert done("score", lab.run, empty, empty).out == b""
    assert done("score", lab.run, empty, "--pieces").out == b""


def test_what_does_not_fit_is_refused(lab, tmp_path):
    short = write_lines(tmp_path / "short.xx", ["een"])
    message = refused(3, "score", lab.run, lab.dev_source, short)
    assert all(part in message for part in ("short.xx", "20", "1"))
    assert "TARGET" in refused(2, "score", lab.run, lab.dev_source)
    assert "--pieces" in refused(2, "score", lab.run, lab.dev_source, lab.dev_target, "--pieces")
    assert "missing" in refused(3, "score", lab.run, tmp_path / "missing", short)
    refused(4, "score", tmp_path, lab.dev_source, lab.dev_target)
    (tmp_path / "latin").write_bytes(b"\xff\n")
    assert "line 1" in refused(3, "score", lab.run, short, tmp_path / "latin")


@pytest.mark.parametrize(
    "line",
    [
        "een",
        "",
        "[]",
        "null",
        "3",
        '{"source": "one"}',
        '{"source": "one", "pieces": "een"}',
        '{"source": "one", "pieces": [1]}',
        '{"source": "one", "pieces": null}',
        '{"source": 1, "pieces": []}',
        '{"source": "one", "pieces": [], "flags": 3}',
        "[" * 100_000,
    ],
)
def test_a_line_that_is_no_record_is_refused_by_number(lab, line):
    good = '{"source": "one", "pieces": []}'
    message = refused(3, "score", lab.run, "-", "--pieces", stdin=f"{good}\n{line}\n".encode())
    assert "standard input, line 2" in message


def test_a_piece_that_is_in_no_vocabulary_is_refused(lab):
    record = {"source": "one", "pieces": ["\u2581frobnicate"]}
    message = refused(3, "score", lab.run, "-", "--pieces", stdin=json.dumps(record).encode())
    assert "frobnicate" in message
