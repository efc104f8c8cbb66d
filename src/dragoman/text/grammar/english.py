"""English wording of the abstract syntax.

Paper: none (infrastructure)

Every function returns words tagged with the nodes they stand for. A node is named by its path: a clause's
verb is "v", its tense "t", its negation "n", its subject's head "s.h"; a second clause's names begin with
"2.".
"""

from __future__ import annotations

from dragoman.text.grammar.syntax import (
    Agreement,
    Amount,
    City,
    Clause,
    Existential,
    Frame,
    Gap,
    Name,
    Nominal,
    NounPhrase,
    Phrase,
    Predicate,
    PrepositionalPhrase,
    Pronoun,
    Sentence,
    Tense,
    Word,
    agreement,
)
from dragoman.text.grammar.times import english_number

_OBJECT_FORMS = {"I": "me", "he": "him", "she": "her", "it": "it", "we": "us", "they": "them"}
_AUXILIARIES = {
    Tense.FUTURE: "will",
    Tense.CAN: "can",
    Tense.MUST: "must",
    Tense.SHOULD: "should",
    Tense.MAY: "may",
}
_BE_PRESENT = {
    Agreement.FIRST_SINGULAR: "am",
    Agreement.THIRD_SINGULAR: "is",
    Agreement.FIRST_PLURAL: "are",
    Agreement.THIRD_PLURAL: "are",
}


def sentence(tree: Sentence) -> list[Word]:
    """The words of a sentence, punctuation included, first word not yet capitalized."""
    words = _main(tree)
    if tree.second is not None:
        second = _second(tree.link, tree.second)
        comma = [Word(",", ("comma",))]
        if tree.second_first:
            words = second + comma + words
        else:
            words = words + (comma if tree.link == "but" else []) + second
    return [*words, Word("?" if tree.question else ".", ("end",))]


def _main(tree: Sentence) -> list[Word]:
    if isinstance(tree.main, Existential):
        return _existential(tree.main)
    if not tree.question:
        return clause(tree.main, "")
    if tree.question == "who":
        return [Word("who", ("q",)), *clause(tree.main, "")]
    asked = [Word(word, (f"q{k}",)) for k, word in enumerate(tree.question.split())]
    return ([] if tree.question == "whether" else asked) + clause(tree.main, "", inverted=True)


def _second(link: str, second: Clause) -> list[Word]:
    if link == "to":
        return clause(second, "2.", elided=True)
    return [Word(link, ("link",)), *clause(second, "2.", elided=link == "and")]


def _existential(tree: Existential) -> list[Word]:
    verb = ("were" if tree.past else "are") if tree.thing.plural else ("was" if tree.past else "is")
    start = [Word("there", ("t",)), Word(verb, ("t",))]
    return start + nominal(tree.thing, "o.") + prepositional(tree.place, "x.")


def clause(tree: Clause, node: str, *, inverted: bool = False, elided: bool = False) -> list[Word]:
    """The words of a clause.

    Args:
        tree: the clause.
        node: what its nodes' names begin with.
        inverted: whether the auxiliary comes before the subject, as in questions.
        elided: whether the subject is left unsaid.
    """
    finite, rest = _verb_group(tree, node, support=inverted or tree.negated)
    subject = [] if elided else nominal(tree.subject, node + "s.", subject=True)
    often = phrase(tree.frequency, node + "f.")
    negation = _negation(tree, node, finite)
    start = finite + subject if inverted else subject + finite
    return (
        _front(tree, node) + start + negation + often + rest + _after_verb(tree, node) + _adjuncts(tree, node)
    )


def _negation(tree: Clause, node: str, finite: list[Word]) -> list[Word]:
    joined = any(word.text == "cannot" for word in finite)
    return [Word("not", (node + "n",))] if tree.negated and not joined else []


def _front(tree: Clause, node: str) -> list[Word]:
    if tree.front == "time":
        return phrase(tree.time, node + "m.")
    if tree.front == "adjunct" and tree.adjunct is not None:
        return prepositional(tree.adjunct, node + "x.")
    return []


def _verb_group(tree: Clause, node: str, *, support: bool) -> tuple[list[Word], list[Word]]:
    """The auxiliary that can precede the subject (or none), and the rest of the verb."""
    verb, who, tense = tree.verb.english, agreement(tree.subject), tree.tense
    v, t, both = (node + "v",), (node + "t",), (node + "t", node + "v")
    if tree.verb.frame is Frame.PREDICATE and tense in (Tense.PRESENT, Tense.PAST):
        return [Word(_be(who, tense), both)], []
    if tense is Tense.INFINITIVE:
        return [], [Word("to", t), Word(verb.base, v)]
    if tense in _AUXILIARIES:
        return [_auxiliary(tree, node)], [Word(verb.base, v)]
    third = who is Agreement.THIRD_SINGULAR
    if tense is Tense.PERFECT:
        return [Word("has" if third else "have", t)], [Word(verb.participle, v)]
    if tense in (Tense.WANT, Tense.LIKE):
        return _catenative(tree, node, support=support)
    if support:
        return [Word("did" if tense is Tense.PAST else "does" if third else "do", t)], [Word(verb.base, v)]
    return [], [Word(verb.past if tense is Tense.PAST else verb.third if third else verb.base, both)]


def _catenative(tree: Clause, node: str, *, support: bool) -> tuple[list[Word], list[Word]]:
    """The verb group of "wants to buy" and "likes to buy"."""
    text, tag = ("want", (node + "t",)) if tree.tense is Tense.WANT else ("like", (node + "g",))
    third = agreement(tree.subject) is Agreement.THIRD_SINGULAR
    tail = [Word("to", tag), Word(tree.verb.english.base, (node + "v",))]
    if support:
        return [Word("does" if third else "do", (node + "t",))], [Word(text, tag), *tail]
    return [], [Word(text + ("s" if third else ""), tag), *tail]


def _auxiliary(tree: Clause, node: str) -> Word:
    if tree.tense is Tense.CAN and tree.negated:
        return Word("cannot", (node + "t", node + "n"))
    return Word(_AUXILIARIES[tree.tense], (node + "t",))


def _be(who: Agreement, tense: Tense) -> str:
    if tense is Tense.PRESENT:
        return _BE_PRESENT[who]
    return "was" if who in (Agreement.FIRST_SINGULAR, Agreement.THIRD_SINGULAR) else "were"


def _after_verb(tree: Clause, node: str) -> list[Word]:
    """Particle, preposition, objects, predicate and direction, in their English order."""
    verb, tag = tree.verb.english, (node + "v",)
    particle = [Word(verb.particle, tag)] if verb.particle else []
    own = node + ("p" if tree.verb.german.preposition else "v")
    preposition = [Word(word, (own,)) for word in verb.preposition.split()]
    thing = [] if tree.object is None else nominal(tree.object, node + "o.")
    if tree.recipient is not None:
        words = _ditransitive(tree, node, thing, particle)
    elif isinstance(tree.object, Pronoun):
        words = preposition + thing + particle
    else:
        words = particle + preposition + thing
    return words + _predicate(tree.predicate, node) + _direction(tree, node)


def _ditransitive(tree: Clause, node: str, thing: list[Word], particle: list[Word]) -> list[Word]:
    assert tree.recipient is not None
    recipient = nominal(tree.recipient, node + "r.")
    if tree.recipient_first:
        return recipient + thing + particle
    return thing + particle + [Word("to", ()), *recipient]


def _predicate(predicate: Predicate | Amount | None, node: str) -> list[Word]:
    if predicate is None:
        return []
    if isinstance(predicate, Amount):
        return [Word(english_number(predicate.count), (node + "c",)), *phrase(predicate.unit, node + "u.")]
    if predicate.than is not None:
        than = [Word("than", (node + "k",)), *nominal(predicate.than, node + "w.")]
        return [Word(predicate.adjective.english_comparative, (node + "a",)), *than]
    degree = [Word(predicate.degree, (node + "e",))] if predicate.degree else []
    return [*degree, Word(predicate.adjective.english, (node + "a",))]


def _direction(tree: Clause, node: str) -> list[Word]:
    if isinstance(tree.direction, PrepositionalPhrase):
        return prepositional(tree.direction, node + "d.")
    return phrase(tree.direction, node + "d.")


def _adjuncts(tree: Clause, node: str) -> list[Word]:
    adjunct = tree.adjunct if tree.front != "adjunct" else None
    words = [] if adjunct is None else prepositional(adjunct, node + "x.")
    return words + (phrase(tree.time, node + "m.") if tree.front != "time" else [])


def phrase(fixed: Phrase | None, node: str) -> list[Word]:
    """The words of a fixed expression, their nodes placed under `node`."""
    if fixed is None:
        return []
    return [Word(word.text, tuple(node + name for name in word.nodes)) for word in fixed.english]


def prepositional(tree: PrepositionalPhrase, node: str) -> list[Word]:
    """Preposition, then what it governs."""
    words = [Word(word, (node + "p",)) for word in tree.preposition.english]
    if isinstance(tree.nominal, City):
        return [*words, Word(tree.nominal.english, (node + "h",))]
    return words + nominal(tree.nominal, node)


def nominal(tree: Nominal, node: str, *, subject: bool = False) -> list[Word]:
    """A noun phrase with its relative clause, a name or a pronoun; nothing for a gap."""
    match tree:
        case Gap():
            return []
        case Name(text):
            return [Word(text, (node + "h",))]
        case Pronoun(english):
            return [Word(english if subject else _OBJECT_FORMS[english], (node + "h",))]
        case NounPhrase():
            return _noun_phrase(tree, node)


def _noun_phrase(tree: NounPhrase, node: str) -> list[Word]:
    forms = tree.noun.english_plural if tree.plural else tree.noun.english
    head = [Word(word, (node + "h",)) for word in forms]
    if tree.adjective is not None:
        head.insert(0, Word(tree.adjective.english, (node + "a",)))
    words = _determiner(tree, node, head[0].text) + head
    return words if tree.relative is None else words + _relative(tree, tree.relative, node)


def _determiner(tree: NounPhrase, node: str, following: str) -> list[Word]:
    if tree.owner is not None:
        *owner, last = nominal(tree.owner, node + "o.")
        return [*owner, Word(last.text + "'s", last.nodes)]
    match tree.determiner:
        case "bare":
            return []
        case "a":
            text = "an" if following[0] in "aeiou" else "a"
        case "this":
            text = "these" if tree.plural else "this"
        case "number":
            text = english_number(tree.count)
        case _:
            text = tree.determiner
    return [Word(text, (node + "d",))]


def _relative(head: NounPhrase, tree: Clause, node: str) -> list[Word]:
    text = "that"
    if head.noun.kind == "person":
        text = "who" if isinstance(tree.subject, Gap) else "whom"
    return [Word(text, (node + "rel",)), *clause(tree, node + "rel.")]
