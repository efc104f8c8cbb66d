"""`dragoman evaluate` from the command line, against sacreBLEU itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sacrebleu
from command_line import done, everything_in, refused, write_lines

from dragoman.scoring.paper_bleu import paper_bleu
from dragoman.translator import Translator

HYPOTHESES = ["the cat sat\rhere", "no\u2028break here", "", "last line"]
REFERENCES = ["the cat sat here", "no break here", "empty one", ""]


def scores_of(result):
    return {score["name"]: score for score in result.json}


@pytest.fixture
def files(tmp_path):
    """Lines with a lone CR, a line separator, a blank hypothesis and a blank reference."""
    return write_lines(tmp_path / "hyp.txt", HYPOTHESES), write_lines(tmp_path / "ref.txt", REFERENCES)


def test_two_arguments_score_a_translation_as_sacrebleu_does(files):
    scores = scores_of(done("evaluate", *files, "--json"))
    assert scores["BLEU"]["value"] == pytest.approx(
        sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score, abs=0.01
    )
    assert scores["BLEU"]["value"] == pytest.approx(89.7261, abs=0.01)
    assert scores["chrF2"]["value"] == pytest.approx(81.6482, abs=0.01)
    assert scores["BLEU"]["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    for score in scores.values():
        assert [score[name] for name in ("segments", "blank_hypotheses", "blank_references")] == [4, 1, 1]


def test_for_people_there_is_a_line_a_score_and_the_counts(files):
    result = done("evaluate", *files)
    assert [line.split()[0] for line in result.lines] == ["BLEU", "chrF2", "exact"]
    assert result.lines[0].startswith("BLEU 89.73  nrefs:1|")
    assert "segments 4, blank hypotheses 1, blank references 1" in result.err


def test_empty_output_scores_nothing_and_drops_nothing(files, tmp_path):
    empty = write_lines(tmp_path / "empty.txt", [""] * 4)
    scores = scores_of(done("evaluate", empty, files[1], "--json"))
    assert (scores["BLEU"]["value"], scores["BLEU"]["segments"]) == (0.0, 4)
    assert scores["BLEU"]["blank_hypotheses"] == 4


def test_a_text_against_itself_is_perfect(files):
    scores = scores_of(done("evaluate", files[1], files[1], "--json"))
    assert scores["chrF2"]["value"] == pytest.approx(100.0)


def test_the_target_language_chooses_the_tokenizer_and_says_so(tmp_path):
    text = write_lines(
        tmp_path / "a.zh", ["\u6211\u4eec\u660e\u5929\u53bb\u5b66\u6821", "\u4f60\u597d\u5417"]
    )
    by_name = done("evaluate", text, text, "--json")
    assert "tok:zh" in scores_of(by_name)["BLEU"]["signature"]
    result = done("evaluate", text, text)
    assert "zh" in result.err
    other = done("evaluate", text, text, "--target-language", "de", "--json")
    assert "tok:13a" in scores_of(other)["BLEU"]["signature"]
    cut = done("evaluate", text, text, "--tokenize", "none", "--json")
    assert "tok:none" in scores_of(cut)["BLEU"]["signature"]
    assert "frob" in refused(2, "evaluate", text, text, "--tokenize", "frob")


def test_the_papers_measure_is_given_when_asked_for(files):
    result = done("evaluate", *files, "--paper", "--json")
    wanted = paper_bleu(HYPOTHESES, REFERENCES, target_language="en")
    assert result.json[-1]["value"] == pytest.approx(wanted.value)
    assert result.json[-1]["name"] == wanted.name


def test_three_arguments_translate_and_score(lab, tmp_path):
    out = tmp_path / "out.xx"
    result = done("evaluate", lab.run, lab.dev_source, lab.dev_target, "--json", "--out", out)
    texts = done("translate", lab.run, lab.dev_source).lines
    assert out.read_text(encoding="utf-8").splitlines() == texts
    references = lab.dev_target.read_text(encoding="utf-8").splitlines()
    scores = scores_of(result)
    bleu, chrf = sacrebleu.corpus_bleu(texts, [references]), sacrebleu.corpus_chrf(texts, [references])
    assert scores["BLEU"]["value"] == pytest.approx(bleu.score, abs=1e-6)
    assert scores["chrF2"]["value"] == pytest.approx(chrf.score, abs=1e-6)
    same = sum(a == b for a, b in zip(texts, references, strict=True))
    assert scores["exact match"]["value"] == pytest.approx(100.0 * same / 20)
    assert scores["BLEU"]["signature"].endswith("|beam:4|alpha:0.6|max:source+50")
    assert scores_of(done("evaluate", out, lab.dev_target, "--json"))["BLEU"]["value"] == pytest.approx(
        bleu.score, abs=1e-6
    )


def test_the_search_is_in_the_signature_and_the_standing_is_said(lab):
    options = ("--beam-size", 1, "--alpha", 0.0, "--paper", "--precision", "fp32", "--threads", 1)
    result = done("evaluate", lab.run, lab.dev_source, lab.dev_target, *options)
    assert len(result.lines) == 4
    assert all(line.endswith("|beam:1|alpha:0.0|max:source+50") for line in result.lines)
    assert "Vaswani et al. 2017" in result.err
    assert "segments 20" in result.err


def test_the_model_reads_standard_input(lab):
    result = done("evaluate", lab.run, "-", lab.dev_target, stdin=lab.dev_source.read_bytes())
    assert result.out == done("evaluate", lab.run, lab.dev_source, lab.dev_target).out


def test_counts_that_differ_are_refused_with_both(files, lab, tmp_path):
    short = write_lines(tmp_path / "short.txt", HYPOTHESES[:3])
    message = refused(3, "evaluate", short, files[1])
    assert all(part in message for part in ("short.txt has 3", "ref.txt has 4"))
    message = refused(3, "evaluate", lab.run, lab.dev_source, files[1])
    assert all(part in message for part in ("dev.en has 20", "ref.txt has 4"))


def test_what_cannot_be_evaluated_is_refused(lab, files, tmp_path):
    assert "not 1" in refused(2, "evaluate", files[0])
    assert "not 4" in refused(2, "evaluate", *files, *files)
    assert "--beam-size" in refused(2, "evaluate", *files, "--beam-size", 3)
    assert "--alpha" in refused(2, "evaluate", *files, "--alpha", 0.5)
    assert "more than once" in refused(2, "evaluate", "-", "-")
    assert "more than once" in refused(2, "evaluate", lab.run, "-", "-")
    assert "scores go" in refused(2, "evaluate", lab.run, lab.dev_source, lab.dev_target, "--out", "-")
    assert "is empty" in refused(2, "evaluate", lab.run, lab.dev_source, lab.dev_target, "--out", "")
    assert "--tokenize" in refused(
        2, "evaluate", lab.run, lab.dev_source, lab.dev_target, "--tokenize", "none"
    )
    assert "nowhere" in refused(4, "evaluate", tmp_path / "nowhere", lab.dev_source, lab.dev_target)
    assert "missing" in refused(3, "evaluate", tmp_path / "missing", files[1])
    empty = write_lines(tmp_path / "empty", [])
    assert "nothing to score" in refused(3, "evaluate", empty, empty)
    assert "nothing to score" in refused(3, "evaluate", lab.run, empty, empty)
    (tmp_path / "latin").write_bytes(b"\xff\n" * 4)
    assert "line 1" in refused(3, "evaluate", tmp_path / "latin", files[1])
    assert "line 1" in refused(3, "evaluate", lab.run, files[0], tmp_path / "latin")


def test_a_model_without_a_source_is_met_with_what_is_missing(lab, files):
    message = refused(2, "evaluate", lab.run, files[1])
    assert "this model translates" in message
    assert "MODEL SOURCE REFERENCE" in message


def test_a_place_for_the_translations_is_checked_before_the_work(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "dragoman.translator.Translator.load", lambda *_, **__: pytest.fail("it went to work")
    )
    out = tmp_path / "no" / "out.txt"
    message = refused(3, "evaluate", lab.run, lab.dev_source, lab.dev_target, "--out", out)
    assert str(out) in message
    assert everything_in(tmp_path) == []


def test_translations_that_were_cut_are_said(lab, monkeypatch):
    real = Translator.translate

    def cut(self, units, **options):
        return [replace(translation, truncated=True) for translation in real(self, units, **options)]

    monkeypatch.setattr(Translator, "translate", cut)
    result = done("evaluate", lab.run, lab.dev_source, lab.dev_target)
    assert "warning: 20 translations were cut at the length limit" in result.err


def test_out_is_for_a_model_alone(lab, tmp_path):
    message = refused(2, "evaluate", lab.dev_target, lab.dev_target, "--out", tmp_path / "o")
    assert "--out" in message
    assert not (tmp_path / "o").exists()
