"""`dragoman compare` from the command line."""

from __future__ import annotations

import pytest
from command_line import done, refused, write_lines

from dragoman.scoring.compare import compare


@pytest.fixture
def texts(tmp_path):
    """Ten lines, a translation that has them all and one that has half."""
    reference = [f"this is the line with number {n} of ten" for n in range(10)]
    worse = [line if n % 2 else "this is nothing of the kind" for n, line in enumerate(reference)]
    names = ("good.de", "worse.de", "reference.de")
    return [
        write_lines(tmp_path / name, lines)
        for name, lines in zip(names, (reference, worse, reference), strict=True)
    ]


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


def test_json_is_what_the_library_says(texts):
    result = done("compare", *texts, "--samples", 100, "--seed", 3, "--json")
    wanted = compare(*map(lines_of, texts), samples=100, seed=3, target_language="de")
    assert result.json == wanted.as_dict()
    assert result.json["difference"] > 0


def test_for_people_there_are_four_lines(texts):
    result = done("compare", *texts, "--samples", 100)
    assert [line.split()[0] for line in result.lines[:3]] == ["A", "B", "A"]
    assert "p = " in result.lines[2]
    assert "bs:100|seed:12345" in result.lines[3]


@pytest.mark.parametrize("metric", ["bleu", "chrf", "paper"])
def test_each_metric_and_each_seed(texts, metric):
    command = ("compare", *texts, "--samples", 100, "--metric", metric, "--json")
    first = done(*command).json
    assert first == done(*command).json
    assert first["interval_a"] != done(*command, "--seed", 1).json["interval_b"]
    assert first["a"]["value"] == pytest.approx(100.0)


def test_the_same_output_twice_is_no_difference(texts):
    result = done("compare", texts[0], texts[0], texts[2], "--samples", 100, "--json").json
    assert (result["difference"], result["p_value"]) == (0.0, 1.0)
    assert done("compare", *texts, "--samples", 100).err == ""
    told = done("compare", texts[0], texts[2], texts[2], "--samples", 100).err
    assert told == "note: A and B are the same, line for line\n"


def test_a_target_language_chooses_the_tokenizer(texts):
    assert "tok:zh" in done("compare", *texts, "--samples", 100, "--target-language", "zh").lines[3]


def test_what_does_not_fit_is_refused_and_named(texts, tmp_path):
    good, worse, reference = texts
    short = write_lines(tmp_path / "short.de", ["one"])
    message = refused(3, "compare", good, short, reference)
    assert "short.de has 1" in message
    assert "reference.de has 10" in message
    assert "good.de" not in message
    assert "missing" in refused(3, "compare", good, worse, tmp_path / "missing")
    assert "more than once" in refused(2, "compare", "-", "-", reference)
    assert "samples" in refused(
        2, "compare", *texts, "--samples", 99
    )  # an interval of 95% from so few says little
    assert "metric" in refused(2, "compare", *texts, "--metric", "frob")
    (tmp_path / "latin").write_bytes(b"\xff\n")
    assert "latin" in refused(3, "compare", good, tmp_path / "latin", reference)
