"""German noun phrases, names, pronouns and prepositional phrases.

Paper: none (infrastructure)
"""

from __future__ import annotations

from dragoman.text.grammar.declension import contraction, determiner, ending, form, pronoun
from dragoman.text.grammar.syntax import (
    Case,
    City,
    Gap,
    Name,
    Nominal,
    NounPhrase,
    Phrase,
    PrepositionalPhrase,
    Pronoun,
    Word,
)
from dragoman.text.grammar.times import german_number


def phrase(fixed: Phrase | None, node: str) -> list[Word]:
    """The words of a fixed expression, their nodes placed under `node`."""
    if fixed is None:
        return []
    return [Word(word.text, tuple(node + name for name in word.nodes)) for word in fixed.german]


def prepositional(tree: PrepositionalPhrase, node: str) -> list[Word]:
    """Preposition, then what it governs, in the preposition's case."""
    preposition = Word(tree.preposition.german, (node + "p",))
    if isinstance(tree.nominal, City):
        return [preposition, Word(tree.nominal.german, (node + "h",))]
    return nominal(tree.nominal, node, tree.preposition.case, preposition=preposition)


def nominal(
    tree: Nominal, node: str, case: Case, *, negation: str = "", preposition: Word | None = None
) -> list[Word]:
    """A noun phrase without its relative clause, a name or a pronoun; nothing for a gap.

    Args:
        tree: what to word.
        node: what the names of its nodes begin with.
        case: its case.
        negation: the clause's negation, if this phrase is to say it with "kein".
        preposition: a preposition before it, which may take in the article ("im").
    """
    before = [] if preposition is None else [preposition]
    match tree:
        case Gap():
            return []
        case Name(text):
            return [*before, Word(text, (node + "h",))]
        case Pronoun():
            return [*before, Word(pronoun(tree, case), (node + "h",))]
        case NounPhrase():
            return _contracted(before, _noun_phrase(tree, node, case, negation), tree)


def _contracted(before: list[Word], words: list[Word], tree: NounPhrase) -> list[Word]:
    if before and tree.determiner in ("the", "owner"):
        joined = contraction(before[0].text, words[0].text)
        if joined:
            return [Word(joined, before[0].nodes + words[0].nodes), *words[1:]]
    return before + words


def _noun_phrase(tree: NounPhrase, node: str, case: Case, negation: str) -> list[Word]:
    gender = "p" if tree.plural else tree.noun.gender
    words, kind = _determiner(tree, node, case, negation)
    if tree.adjective is not None:
        words.append(Word(tree.adjective.german_stem + ending(kind, case, gender), (node + "a",)))
    words.append(Word(form(tree.noun, case, plural=tree.plural), (node + "h",)))
    if isinstance(tree.owner, NounPhrase):
        words += nominal(tree.owner, node + "o.", Case.GENITIVE)
    return words


def _determiner(tree: NounPhrase, node: str, case: Case, negation: str) -> tuple[list[Word], str]:
    """The determiner's words, and what kind it is for the adjective behind it."""
    gender = "p" if tree.plural else tree.noun.gender
    tag = (node + "d",)
    if negation:
        return [Word(determiner("no", case, gender), (negation, *tag))], "no"
    if isinstance(tree.owner, Name):
        return [Word(tree.owner.text + "s", (node + "o.h",))], "name"
    if tree.owner is not None:
        return [Word(determiner("the", case, gender), ())], "the"
    if tree.determiner == "number":
        return [Word(german_number(tree.count), tag)], "number"
    if tree.determiner == "bare":
        return [], "bare"
    return [Word(determiner(tree.determiner, case, gender), tag)], tree.determiner
