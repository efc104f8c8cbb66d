"""German declension: nouns, articles, adjectives, pronouns, and prepositions that swallow the article.

Paper: none (infrastructure)

Endings are looked up by case (nominative, accusative, dative, genitive) and by gender or plural, "m", "f",
"n" or "p".
"""

from __future__ import annotations

from dragoman.text.grammar.syntax import Agreement, Case, Noun, Pronoun

Endings = tuple[dict[str, str], dict[str, str], dict[str, str], dict[str, str]]


def _endings(table: str) -> Endings:
    """A row a case, a column a gender ("-" is no ending)."""
    rows = [
        dict(zip("mfnp", (ending.strip("-") for ending in row.split()), strict=True))
        for row in table.split(", ")
    ]
    nominative, accusative, dative, genitive = rows
    return nominative, accusative, dative, genitive


DEFINITE = _endings("der die das die, den die das die, dem der dem den, des der des der")
_DIESER = _endings("er e es e, en e es e, em er em en, es er es er")
_EIN = _endings("- e - e, en e - e, em er em en, es er es er")
_STRONG = _endings("er e es e, en e es e, em er em en, en er en er")
_WEAK = _endings("e e e en, en e e en, en en en en, en en en en")
_MIXED = _endings("er e es en, en e es en, en en en en, en en en en")

_DIESER_STEMS = {"this": "dies", "every": "jed", "all": "all", "many": "viel", "some": "einig"}
_EIN_STEMS = {
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "his": "sein",
    "her": "ihr",
    "our": "unser",
    "their": "ihr",
}
_STRONG_AFTER = frozenset({"bare", "number", "many", "some", "name"})

_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("an", "dem"): "am",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
    ("in", "das"): "ins",
}

_PRONOUNS = {
    "I": ("ich", "mich", "mir"),
    "he": ("er", "ihn", "ihm"),
    "she": ("sie", "sie", "ihr"),
    "we": ("wir", "uns", "uns"),
    "they": ("sie", "sie", "ihnen"),
}
_IT = {"m": ("er", "ihn", "ihm"), "f": ("sie", "sie", "ihr"), "n": ("es", "es", "ihm")}

REFLEXIVE = {
    Agreement.FIRST_SINGULAR: "mich",
    Agreement.THIRD_SINGULAR: "sich",
    Agreement.FIRST_PLURAL: "uns",
    Agreement.THIRD_PLURAL: "sich",
}


def form(noun: Noun, case: Case, *, plural: bool) -> str:
    """The form of a noun in a case and number."""
    if plural:
        needs_n = case is Case.DATIVE and not noun.german_plural.endswith(("n", "s"))
        return noun.german_plural + ("n" if needs_n else "")
    if case is Case.GENITIVE or (noun.weak and case is not Case.NOMINATIVE):
        return noun.genitive
    return noun.german


def determiner(kind: str, case: Case, gender: str) -> str:
    """The German determiner for an English one ("the", "a", "my" ...); `gender` is "p" in the plural."""
    if kind == "the":
        return DEFINITE[case.value][gender]
    if kind in _DIESER_STEMS:
        return _DIESER_STEMS[kind] + _DIESER[case.value][gender]
    return _EIN_STEMS[kind] + _EIN[case.value][gender]


def ending(kind: str, case: Case, gender: str) -> str:
    """The ending of an adjective behind that determiner: strong, weak or mixed."""
    if kind in _STRONG_AFTER:
        return _STRONG[case.value][gender]
    if kind in _EIN_STEMS:
        return _MIXED[case.value][gender]
    return _WEAK[case.value][gender]


def relative_pronoun(case: Case, gender: str) -> str:
    """The relative pronoun, nominative to dative: the article, but "denen" in the dative plural."""
    return "denen" if (case, gender) == (Case.DATIVE, "p") else DEFINITE[case.value][gender]


def pronoun(which: Pronoun, case: Case) -> str:
    """A personal pronoun; "it" takes the gender of its antecedent."""
    forms = _IT[which.gender] if which.english == "it" else _PRONOUNS[which.english]
    return forms[case.value]


def contraction(preposition: str, article: str) -> str:
    """Preposition and definite article as one word ("im"), or "" where they stay two."""
    return _CONTRACTIONS.get((preposition, article), "")
