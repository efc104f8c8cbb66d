"""Moses tokens: rule by rule, and on published tokens of newstest2014.

Paper: 6.1
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.scoring.moses import replace_unicode_punctuation, tokenize

ReadUnits = Callable[[str], list[str]]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hallo, Welt!", "Hallo , Welt !"),
        ("5,300 und a,b,c", "5,300 und a , b , c"),
        ("im Jahr 1990,", "im Jahr 1990 ,"),
        ("(so) [so] {so}", "( so ) &#91; so &#93; { so }"),
        ("a|b & <c>", "a &#124; b &amp; &lt; c &gt;"),
        ('"Ja" sagte er.', "&quot; Ja &quot; sagte er ."),
        ("„Ja“ – nein", "„ Ja “ – nein"),
        ("E-Mail", "E-Mail"),
        ("Moment... gut", "Moment ... gut"),
        ("Moment....", "Moment ...."),
        ("..x", ".. x"),
        ("wie geht's", "wie geht &apos; s"),
        ("50% von 3 €", "50 % von 3 €"),
        ("Ende.'", "Ende . &apos;"),
        ("", ""),
        (" \t\u3000", ""),
        ("a\rb\u2028c\u00a0d\te", "a b c d e"),
        ("a\x00b\x1cc", "abc"),
        ("DOTMULTI", "DOTMULTI"),
    ],
)
def test_general_rules(text: str, tokens: str) -> None:
    assert tokenize(text, language="de") == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Am 3. Mai kam Dr. Meier.", "Am 3. Mai kam Dr. Meier ."),
        ("Das 165. Fest", "Das 165 . Fest"),
        ("Das 165. fest", "Das 165. fest"),
        ("z.B. Haus. Und", "z.B. Haus . Und"),
        ("Er ging.", "Er ging ."),
        ("Im 3.", "Im 3."),
        (". Haus", ". Haus"),
    ],
)
def test_german_full_stops(text: str, tokens: str) -> None:
    assert tokenize(text, language="de") == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("it's Don't", "it &apos;s Don &apos;t"),
        ("the 1990's end", "the 1990 &apos;s end"),
        ("the boys' end", "the boys &apos; end"),
        ("'However he said'", "&apos; However he said &apos;"),
        ("No. 5 and No. six", "No. 5 and No. six"),
        ("No. Six", "No . Six"),
        ("in the U.S. Then", "in the U.S. Then"),
    ],
)
def test_english(text: str, tokens: str) -> None:
    assert tokenize(text, language="en") == tokens


@pytest.mark.parametrize("language", ["fr", "it"])
def test_french_and_italian_apostrophes(language: str) -> None:
    assert tokenize("l'eau d'été 'x'", language=language) == "l&apos; eau d&apos; été &apos; x &apos;"


def test_letters_of_all_scripts_stay_whole() -> None:
    assert tokenize("काम भाषा кот 中国 x²", language="en").split()[:4] == ["काम", "भाषा", "кот", "中国"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("“Ja” «nein»", '"Ja" «nein»'),
        ("l’eau…", "l'eau..."),
        ("„so“ – ‘a’", "„so\" – ‘a'"),
        ("，、：？！；（）％～", ",,:?!;()%~"),
        ("１２３", "123"),
        ("完。  下．次", "完. 下. 次"),
        ("《a》「b」【c】〈d〉━", '"a""b"[c]<d>-'),
        ("\u2236", ":"),
    ],
)
def test_replace_unicode_punctuation(text: str, plain: str) -> None:
    assert replace_unicode_punctuation(text) == plain


@given(st.text(), st.sampled_from(["de", "en", "fr", "xx"]))
def test_tokenizing_only_adds_spaces_and_escapes(text: str, language: str) -> None:
    tokens = tokenize(text, language=language)
    assert tokens == " ".join(tokens.split(" ")) and not tokens.startswith(" ")
    kept = re.sub(r"[\x00-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]", "", text)
    plain = tokens.replace(" ", "")
    for code, mark in (("#124", "|"), ("lt", "<"), ("gt", ">"), ("apos", "'"), ("quot", '"')):
        plain = plain.replace(f"&{code};", mark)
    plain = plain.replace("&#91;", "[").replace("&#93;", "]").replace("&amp;", "&")
    assert plain == kept


def _normalize_punctuation(tokens: str, quote: str) -> str:
    """Do to tokens what the publishers of wmt/tok did after tokenizing: Moses' punctuation normalizer."""
    text = re.sub(r" +", " ", tokens.replace("\r", "").replace("(", " (").replace(")", ") "))
    text = re.sub(r"\) ([.!:?;,])", r")\1", text).replace("( ", "(").replace(" )", ")")
    text = re.sub(r"(\d) %", r"\1%", text).replace(" :", ":").replace(" ;", ";")
    text = text.replace("`", "'").replace("''", ' " ').replace("…", "...")
    text = re.sub("[„“”]", '"', text).replace("–", "-").replace("—", " - ")
    text = re.sub(r" +", " ", text).replace("´", "'")
    text = re.sub("([a-z])‘([a-z])", r"\1'\2", text)
    text = re.sub("([a-z])’([a-z])", r"\1'\2", text)
    return re.sub("[‘‚’]", quote, text)


@pytest.mark.parametrize("language", ["de", "en"])
def test_published_tokens_of_newstest2014(wmt: ReadUnits, language: str) -> None:
    published = wmt(f"tok/newstest2014.en-de.tok.{language}.gz")
    plain = wmt(f"newstest2014-filtered2737.en-de.{language}.gz")
    assert len(published) == len(plain) == 2737
    ours = [_normalize_punctuation(tokenize(unit, language=language), '"').strip() for unit in plain]
    different = [(a, b) for a, b in zip(ours, published, strict=True) if a != b]
    assert different == []


def test_sacremoses_agrees_on_german_and_french(wmt: ReadUnits) -> None:
    sacremoses = pytest.importorskip("sacremoses")
    for language in ("de", "fr"):
        other = sacremoses.MosesTokenizer(lang=language)
        for unit in wmt(f"newstest2013.en-{language}.{language}.gz"):
            assert tokenize(unit, language=language) == other.tokenize(unit, return_str=True)
