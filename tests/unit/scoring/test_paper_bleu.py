"""The paper's own BLEU: compounds, the whole chain, and real outputs.

Paper: 6.1 (Table 2)
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from dragoman.errors import DataError
from dragoman.scoring.moses import replace_unicode_punctuation, tokenize
from dragoman.scoring.paper_bleu import LABEL, paper_bleu, paper_tokens, split_compounds

ReadUnits = Callable[[str], list[str]]
JOINT = "##AT##-##AT##"

COMPOUNDS = [
    ("E-Mail", f"E {JOINT} Mail"),
    ("E-Mail-Adresse", f"E {JOINT} Mail {JOINT} Adresse"),
    ("a-b-c", f"a {JOINT} b-c"),
    ("a-ä-b", f"a {JOINT} ä {JOINT} b"),
    ("x--y", f"x {JOINT} -y"),
    ("---", f"- {JOINT} -"),
    ("-a b- - c", "-a b- - c"),
    ("Mutter-", "Mutter-"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "split"), COMPOUNDS)
def test_split_compounds(text: str, split: str) -> None:
    assert split_compounds(text) == split


@pytest.mark.skipif(shutil.which("perl") is None, reason="no perl to compare with")
def test_split_compounds_is_what_perl_does() -> None:
    expression = "s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g"
    lines = "".join(f"{text}\n" for text, _ in COMPOUNDS).encode()
    done = subprocess.run(["perl", "-ple", expression], input=lines, capture_output=True, check=True)
    assert done.stdout.decode().split("\n")[:-1] == [split for _, split in COMPOUNDS]


@given(st.text())
def test_splitting_only_adds_joints(text: str) -> None:
    assert split_compounds(text).replace(f" {JOINT} ", "-") == text.replace(f" {JOINT} ", "-")


def test_lone_surrogates_do_not_stop_a_score() -> None:
    assert split_compounds("\ud800-a") == f"\ud800 {JOINT} a"


def test_the_whole_chain() -> None:
    tokens = paper_tokens("Die „E-Mail“ kam… um 3.", target_language="de")
    assert " ".join(tokens) == f"Die „ E {JOINT} Mail &quot; kam ... um 3."


def test_given_tokens_are_only_split() -> None:
    tokens = paper_tokens("E-Mail &quot; ,", target_language="de", tokenized=True)
    assert tokens == ("E", JOINT, "Mail", "&quot;", ",")


def test_a_score_by_hand() -> None:
    # Tokens: "ab ##AT##-##AT## cd , e" against "ab ##AT##-##AT## cd ; e".
    score = paper_bleu(["ab-cd, e"], ["ab-cd; e"], target_language="de")
    assert score.details["counts"] == [4, 2, 1, 0]
    assert score.details["precisions"] == pytest.approx([80.0, 50.0, 100 / 3, 0.0])
    assert score.value == 0.0


def test_compounds_give_credit_for_their_parts() -> None:
    hypotheses, references = ["die alte Post-Karte kam gestern"], ["die alte Brief-Karte kam gestern"]
    ours = paper_bleu(hypotheses, references, target_language="de")
    whole = BLEU(tokenize="none", smooth_method="none").corpus_score(hypotheses, [references])
    assert whole.score == 0.0 < ours.value


def test_the_signature_says_it_is_not_sacrebleu() -> None:
    score = paper_bleu(["a b c d e"], ["a b c d e"], target_language="de-AT")
    assert score.value == pytest.approx(100.0)
    assert score.name == "BLEU (paper)"
    assert score.signature == (
        "nrefs:1|case:mixed|tok:unicode-punctuation+moses[de]|split:##AT##-##AT##|smooth:none|revision:1|"
        f"measure:{LABEL}"
    )
    assert score.notices == (
        "this is the paper's measure, not sacreBLEU: compare it with published scores of this kind only",
    )


def test_given_tokens_are_in_the_signature() -> None:
    score = paper_bleu(["a"], ["a"], target_language="de", tokenized=True)
    assert "tok:given" in score.signature


def test_languages_without_rules_are_said_aloud() -> None:
    notices = paper_bleu(["a"], ["a"], target_language="cs").notices
    assert "the published script is for German; the same is done here for cs" in notices
    assert "no list of abbreviations for cs: English's is used, as Moses does" in notices


def test_blanks_are_scored_as_they_are() -> None:
    score = paper_bleu(["", "a b c d", "\r"], ["x", "a b c d", ""], target_language="de")
    assert score.counts() == "segments 3, blank hypotheses 2, blank references 1"
    assert (score.details["hypothesis_length"], score.details["reference_length"]) == (4, 5)
    assert 0 < score.value < 100


def test_all_empty_hypotheses_give_0() -> None:
    assert paper_bleu(["", ""], ["a", "b"], target_language="de").value == 0.0


def test_several_references() -> None:
    one, two = ["a b c d"], ["e f g h"]
    assert paper_bleu(["e f g h"], [one, two], target_language="de").value == pytest.approx(100.0)


def test_unequal_counts_are_refused() -> None:
    with pytest.raises(DataError, match="out.txt has 1 units and references has 2"):
        paper_bleu(["a"], ["a", "b"], target_language="de", hypothesis_name="out.txt")


@pytest.mark.parametrize(
    ("system", "reference", "language", "value"),
    [
        ("en-de.wmt13", "newstest2013.en-de.de.gz", "de", 28.42),
        ("en-de.wmt14", "newstest2014-filtered2737.en-de.de.gz", "de", 31.14),
        ("en-fr.wmt14", "newstest2014-sacrebleu-order.en-fr.fr.gz", "fr", 41.43),
    ],
)
def test_real_outputs(wmt: ReadUnits, system: str, reference: str, language: str, value: float) -> None:
    hypotheses = wmt(f"systems/{system}.bergamot-tiny.{language}.gz")
    references = wmt(reference)
    score = paper_bleu(hypotheses, references, target_language=language)
    assert score.value == pytest.approx(value, abs=0.01)
    sides = [
        [" ".join(paper_tokens(unit, target_language=language)) for unit in side]
        for side in (hypotheses, references)
    ]
    oracle = BLEU(tokenize="none", smooth_method="none", force=True).corpus_score(sides[0], [sides[1]])
    assert score.value == pytest.approx(oracle.score, abs=1e-9)


def test_published_tokens_as_references(wmt: ReadUnits) -> None:
    hypotheses = wmt("systems/en-de.wmt14.bergamot-tiny.de.gz")
    ours = [tokenize(replace_unicode_punctuation(unit), language="de") for unit in hypotheses]
    published = wmt("tok/newstest2014.en-de.tok.de.gz")
    score = paper_bleu(ours, published, target_language="de", tokenized=True)
    # Lower than on our own tokens of the references (31.14): the published ones were normalized afterwards.
    assert score.value == pytest.approx(30.22, abs=0.01)
