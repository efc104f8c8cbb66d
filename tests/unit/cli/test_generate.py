"""`dragoman generate`, `dragoman fill`, `dragoman evaluate MODEL TEXT` on the command line: N lines in, N lines out."""

from __future__ import annotations

import pytest
from command_line import done, dragoman, finish, refused, start, write_lines
from tiny_runs import counting

from dragoman.language.masked import MaskedLanguageModel
from dragoman.language.model import LanguageModel

RECIPE = """
name = "counting"
[model]
N = 1
d_model = 32
d_ff = 32
h = 2
P_drop = 0.0
[batch]
source_tokens = 100
target_tokens = 100
max_length = 40
tokens_at_once = 100
[optimizer]
warmup_steps = 20
factor = 0.5
[training]
eps_ls = 0.0
max_steps = 450
checkpoint_steps = 450
validation_sentences = 0
[search]
average_checkpoints = 1
[departures]
architecture = [STACK]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A prepared text and a run of each of the two models, all by the command line."""
    folder = tmp_path_factory.mktemp("one-stack")
    write_lines(folder / "t.en", counting(160, seed=1))
    write_lines(folder / "test.en", counting(12, seed=4))
    done("prepare", folder / "t.en", "--one-text", "--out", folder / "prepared", "--vocab-size", 320)
    for name, stack in (("lm", '"decoder_only"'), ("masked", '{name = "encoder_only", share = 0.25}')):
        (folder / f"{name}.toml").write_text(RECIPE.replace("STACK", stack), encoding="utf-8")
        ended = done(
            "train", folder / "prepared", "--out", folder / name, "--recipe", folder / f"{name}.toml"
        )
        assert f"next: dragoman {'generate' if name == 'lm' else 'fill'}" in ended.err
    return folder


PROMPTS = b"three four\n\nnine ten\n"


def test_as_many_lines_as_prompts_each_beginning_as_it_did(folder, tmp_path):
    result = done("generate", folder / "lm", stdin=PROMPTS)
    assert len(result.lines) == 3
    assert result.lines[0].startswith("three four")
    assert result.lines[2].startswith("nine ten")
    assert done("generate", folder / "lm", stdin=PROMPTS).lines == result.lines, "the same draws"
    prompts = tmp_path / "p.txt"
    prompts.write_bytes(PROMPTS)
    done("generate", folder / "lm", prompts, "--out", tmp_path / "o.txt", "--seed", 1)
    assert (tmp_path / "o.txt").read_text(encoding="utf-8").splitlines() == result.lines
    assert done("generate", folder / "lm", stdin=PROMPTS + b"one").lines[:3] == result.lines


def test_drawing_and_searching(folder):
    greedy = done("generate", folder / "lm", "--beam-size", 1, stdin=PROMPTS).lines
    assert greedy[0].startswith("three four five")
    assert done("generate", folder / "lm", "--top-k", 1, stdin=PROMPTS).lines == greedy
    assert done("generate", folder / "lm", "--seed", 2, stdin=PROMPTS).lines != greedy
    best = done("generate", folder / "lm", "--beam-size", 3, "--n-best", 2, stdin=b"three four\n").lines
    assert [line.split("\t")[0] for line in best] == ["1", "1"]
    assert float(best[0].split("\t")[1]) >= float(best[1].split("\t")[1])
    drawn = done("generate", folder / "lm", "--n-best", 4, "--temperature", 1.5, stdin=b"three\n").lines
    assert len(drawn) == 4


def test_as_records(folder):
    [one] = done("generate", folder / "lm", "--json", "--max-tokens", 1, stdin=b"three four\n").records
    assert set(one) == {
        *("prompt", "text", "score", "log_probability", "pieces", "truncated", "alternatives")
    }
    assert one["prompt"] == "three four"
    [filled] = done("fill", folder / "masked", "--json", stdin=b"three <mask> five\n").records
    assert set(filled) == {"source", "text", "guesses"}
    assert set(filled["guesses"][0][0]) == {"piece", "probability", "text"}


def test_texts_that_were_cut_are_told_of(folder):
    result = done("generate", folder / "lm", "--max-tokens", 1, stdin=PROMPTS)
    assert len(result.lines) == 3
    assert "of 3 texts were cut" in result.err


def test_marks_are_filled_and_other_lines_stay(folder):
    result = done("fill", folder / "masked", stdin=b"three four <mask> six seven\n\nno mark here\n")
    assert result.lines == ["three four five six seven", "", "no mark here"]
    best = done("fill", folder / "masked", "--n-best", 3, stdin=b"x\nthree <mask> five <mask> seven\n").lines
    assert [line.split("\t")[:2] for line in best] == [["2", "1"]] * 3 + [["2", "2"]] * 3
    assert "no line has a <mask>" in done("fill", folder / "masked", stdin=b"no mark\n").err
    other = done("fill", folder / "masked", "--mark", "[MASK]", stdin=b"three four [MASK] six seven\n")
    assert other.lines == ["three four five six seven"]


def test_scores_of_a_text(folder):
    result = done("evaluate", folder / "lm", folder / "test.en")
    assert [line.rpartition("  ")[0].rpartition(" ")[0] for line in result.lines] == [
        *("perplexity a subword", "perplexity a word", "bits a byte")
    ]
    scores = {
        score["name"]: score for score in done("evaluate", folder / "lm", folder / "test.en", "--json").json
    }
    assert 1.0 < scores["perplexity a word"]["value"] < 4.0
    masked = done("evaluate", folder / "masked", folder / "test.en", "--json").json
    assert [score["name"] for score in masked] == ["pseudo-perplexity a subword", "hidden subwords guessed"]
    assert masked[1]["value"] > 70.0


def test_a_number_a_line(folder):
    text = (folder / "test.en").read_text(encoding="utf-8").splitlines()
    scores = [float(line) for line in done("score", folder / "lm", folder / "test.en").lines]
    assert scores == pytest.approx(LanguageModel.load(folder / "lm").log_probabilities(text), abs=1e-5)
    records = done("score", folder / "masked", folder / "test.en", "--json").records
    assert [record["line"] for record in records] == list(range(1, len(text) + 1))
    known = MaskedLanguageModel.load(folder / "masked").known(text)
    wanted = [one.log_probability for one in known]
    assert [record["score"] for record in records] == pytest.approx(wanted, abs=1e-5)
    assert "--alpha" in refused(2, "score", folder / "lm", folder / "test.en", "--alpha", 1.0)


def test_the_report_on_a_run(folder):
    said = done("fidelity", folder / "lm").text
    assert "decoder_only of Liu et al. 2018" in said
    assert "BLEU" not in said
    assert "length penalty" in said
    assert "length penalty" not in done("fidelity", folder / "masked").text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("generate", "lm", "--beam-size", 2, "--seed", 1), "for drawing"),
        (("generate", "lm", "--alpha", 1.0), "--alpha is for searching"),
        (("generate", "lm", "--beam-size", 2, "--n-best", 3), "above --beam-size"),
        (("generate", "lm", "--temperature", 0), "temperature"),
        (("generate", "masked"), "no language model"),
        (("fill", "lm"), "no masked language model"),
        (("fill", "masked", "--mark", ""), "the mark is empty"),
        (("translate", "lm"), "translates nothing"),
        (("evaluate", "lm", "test.en", "test.en"), "translates nothing"),
        (("evaluate", "lm", "test.en", "--paper"), "for translations"),
        (("evaluate", "lm", "test.en", "--precision", "int8"), "for translating"),
    ],
)
def test_what_makes_no_sense_is_refused(folder, arguments, said):
    paths = [folder / a if a in ("lm", "masked", "test.en") else a for a in arguments]
    assert said in refused(2, *paths, stdin=b"three <mask>\n")


def test_a_translator_is_told_apart(lab, folder):
    assert "dragoman translate" in refused(2, "generate", lab.run, stdin=b"one\n")
    assert "MODEL SOURCE REFERENCE" in refused(2, "evaluate", lab.run, folder / "test.en")
    assert "give TARGET" in refused(2, "score", lab.run, folder / "test.en")


def test_bytes_that_are_no_text(folder):
    assert "UTF-8" in refused(3, "generate", folder / "lm", stdin=b"three \xff\n")
    kept = done("fill", folder / "masked", "--bad-bytes", "replace", stdin=b"three \xff\n").lines
    assert kept == ["three \ufffd"]


def test_output_is_not_written_over_the_input(folder, tmp_path):
    path = write_lines(tmp_path / "p.txt", ["three"])
    for verb, model in (("generate", "lm"), ("fill", "masked")):
        assert dragoman(verb, folder / model, path, "--out", path).code == 2
    assert path.read_text(encoding="utf-8") == "three\n"


def test_a_pipe_is_answered_line_by_line(folder):
    with start("generate", folder / "lm", "--beam-size", "1") as process:
        process.stdin.write(b"three four\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"three four")
        assert finish(process, b"one\n").lines[0].startswith("one")
