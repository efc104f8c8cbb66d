"""German wording of the abstract syntax: verb second, verb first, verb last, and the middle field between.

Paper: none (infrastructure)

A clause is laid out as fields: [front] [finite verb] [subject, pronouns, definite objects, time, negation,
place, indefinite objects, prepositional object, predicate] [prefix, participle or infinitive]; subordinate
clauses put the finite verb last. The same node names as in `english.py` tie the two wordings together.
"""

from __future__ import annotations

from dragoman.text.grammar.declension import REFLEXIVE, relative_pronoun
from dragoman.text.grammar.german_nominal import nominal, phrase, prepositional
from dragoman.text.grammar.german_verb import VerbGroup, verb_group
from dragoman.text.grammar.syntax import (
    Amount,
    Case,
    Clause,
    Existential,
    Frame,
    Gap,
    Name,
    Nominal,
    NounPhrase,
    Predicate,
    PrepositionalPhrase,
    Pronoun,
    Sentence,
    Tense,
    Word,
    agreement,
)
from dragoman.text.grammar.times import german_number

_LINKS = {
    "because": "weil",
    "if": "wenn",
    "although": "obwohl",
    "before": "bevor",
    "while": "während",
    "that": "dass",
    "whether": "ob",
    "but": "aber",
    "and": "und",
}
_QUESTIONS = {"when": "wann", "why": "warum", "who": "wer", "what": "was", "how much": "wie viel"}
_DEFINITE = frozenset({"the", "this", "my", "his", "her", "our", "their", "owner"})
_NEGATED_BY_KEIN = (Frame.ACCUSATIVE, Frame.GIVE, Frame.PLACEMENT)
COMMA = Word(",", ())


def sentence(tree: Sentence) -> list[Word]:
    """The words of a sentence, punctuation included, first word not yet capitalized."""
    words = _main(tree)
    if tree.second is not None:
        comma = Word(",", ("comma",)) if tree.second_first or tree.link == "but" else COMMA
        second = _second(tree.link, tree.second)
        if tree.second_first:
            words = [*second, comma, *words]
        else:
            words = words + ([] if tree.link == "and" else [comma]) + second
    return _punctuated([*words, Word("?" if tree.question else ".", ("end",))])


def _punctuated(words: list[Word]) -> list[Word]:
    """Of several commas in a row one is kept, and none before the final mark."""
    kept: list[Word] = []
    for word in words:
        if kept and kept[-1].text == "," and word.text in ",.?":
            kept.pop()
        kept.append(word)
    return kept


def _main(tree: Sentence) -> list[Word]:
    if isinstance(tree.main, Existential):
        return _existential(tree.main)
    if not tree.question and not tree.second_first:
        return verb_second(tree.main, "")
    return _question(tree.question, tree.main) + verb_first(tree.main, "")


def _question(question: str, main: Clause) -> list[Word]:
    match question:
        case "" | "whether":
            return []
        case "where":
            text = "wohin" if main.verb.frame is Frame.DIRECTION else "wo"
        case "whom":
            text = "wem" if main.verb.frame is Frame.DATIVE else "wen"
        case _:
            text = _QUESTIONS[question]
    if question == "who":
        return [Word(text, ("q",))]
    return [Word(word, (f"q{k}",)) for k, word in enumerate(text.split())]


def _second(link: str, tree: Clause) -> list[Word]:
    node = "2."
    match link:
        case "to":
            return verb_last(tree, node, elided=True)
        case "but":
            return [Word("aber", ("link",)), *verb_second(tree, node)]
        case "and":
            return [Word("und", ("link",)), *verb_first(tree, node, elided=True)]
        case "when":
            text = "als" if tree.tense is Tense.PAST else "wenn"
        case _:
            text = _LINKS[link]
    return [Word(text, ("link",)), *verb_last(tree, node)]


def _existential(tree: Existential) -> list[Word]:
    verb = [Word("gab" if tree.past else "gibt", ("t",)), Word("es", ("t",))]
    return prepositional(tree.place, "x.") + verb + nominal(tree.thing, "o.", Case.ACCUSATIVE)


def verb_second(tree: Clause, node: str) -> list[Word]:
    """A main clause: one element, the finite verb, the rest."""
    if tree.front == "time":
        front = phrase(tree.time, node + "m.")
    elif tree.front == "adjunct" and tree.adjunct is not None:
        front = prepositional(tree.adjunct, node + "x.")
    else:
        front = _subject(tree, node)
        return front + _verb_and_rest(tree, node, subject=[])
    return front + verb_first(tree, node)


def verb_first(tree: Clause, node: str, *, elided: bool = False) -> list[Word]:
    """A clause from its finite verb on, the subject behind it: questions, and what has its front filled."""
    return _verb_and_rest(tree, node, subject=[] if elided else _subject(tree, node))


def _verb_and_rest(tree: Clause, node: str, *, subject: list[Word]) -> list[Word]:
    group = verb_group(tree, node)
    return [group.finite, *_middle(tree, node, subject), *group.tail, *_extraposed(tree, node)]


def verb_last(tree: Clause, node: str, *, elided: bool = False) -> list[Word]:
    """A subordinate clause from its subject on (nothing for a gap, or where it is elided)."""
    group: VerbGroup = verb_group(tree, node)
    subject = [] if elided else _subject(tree, node)
    return [*_middle(tree, node, subject), *group.last]


def _subject(tree: Clause, node: str) -> list[Word]:
    words = nominal(tree.subject, node + "s.", Case.NOMINATIVE)
    return words + _relative(tree.subject, node + "s.")


def _extraposed(tree: Clause, node: str) -> list[Word]:
    """The relative clause of an object waits until the verb is complete."""
    return [] if tree.object is None else _relative(tree.object, node + "o.")


def _relative(head: Nominal, node: str) -> list[Word]:
    if not isinstance(head, NounPhrase) or head.relative is None:
        return []
    tree = head.relative
    case = Case.NOMINATIVE if isinstance(tree.subject, Gap) else _object_case(tree)
    text = relative_pronoun(case, "p" if head.plural else head.noun.gender)
    return [COMMA, Word(text, (node + "rel",)), *verb_last(tree, node + "rel."), COMMA]


def _object_case(tree: Clause) -> Case:
    return Case.DATIVE if tree.verb.frame is Frame.DATIVE else Case.ACCUSATIVE


def _middle(tree: Clause, node: str, subject: list[Word]) -> list[Word]:
    """What stands between the two parts of the verb."""
    pronouns, definite, indefinite = _objects(tree, node)
    time = phrase(tree.time, node + "m.") if tree.front != "time" else []
    often = phrase(tree.frequency, node + "f.")
    adjunct = prepositional(tree.adjunct, node + "x.") if tree.adjunct and tree.front != "adjunct" else []
    circumstances = time + often + _negation(tree, node) + adjunct
    return (
        _start(tree, node, subject)
        + pronouns
        + definite
        + circumstances
        + indefinite
        + _complements(tree, node)
    )


def _start(tree: Clause, node: str, subject: list[Word]) -> list[Word]:
    """Subject and reflexive pronoun; the pronoun comes first unless the subject is a pronoun itself."""
    if not tree.verb.german.reflexive:
        return subject
    reflexive = [Word(REFLEXIVE[agreement(tree.subject)], (node + "v",))]
    return subject + reflexive if isinstance(tree.subject, Pronoun) else reflexive + subject


def _negation(tree: Clause, node: str) -> list[Word]:
    """ "nicht", unless an indefinite object says it with "kein"; "gern" has the same place."""
    gladly = [Word("gern", (node + "g",))] if tree.tense is Tense.LIKE else []
    return [Word("nicht", (node + "n",))] if tree.negated and not _says_kein(tree) else gladly


def _says_kein(tree: Clause) -> bool:
    thing = tree.object
    countable = isinstance(thing, NounPhrase) and thing.determiner in ("a", "bare")
    return tree.negated and countable and tree.verb.frame in _NEGATED_BY_KEIN


def _objects(tree: Clause, node: str) -> tuple[list[Word], list[Word], list[Word]]:
    """Objects by field: pronouns, definite, indefinite. Dative first, except among pronouns."""
    fields: tuple[list[Word], list[Word], list[Word]] = ([], [], [])
    if tree.verb.frame is Frame.PREPOSITION:
        return fields
    thing, recipient = tree.object, tree.recipient
    if recipient is not None:
        fields[_field(recipient)].extend(nominal(recipient, node + "r.", Case.DATIVE))
    if thing is not None:
        negation = node + "n" if _says_kein(tree) else ""
        words = nominal(thing, node + "o.", _object_case(tree), negation=negation)
        field = _field(thing)
        fields[field][:] = words + fields[field] if field == 0 else fields[field] + words
    return fields


def _field(tree: Nominal) -> int:
    if isinstance(tree, Pronoun):
        return 0
    return (
        1 if isinstance(tree, Name) or (isinstance(tree, NounPhrase) and tree.determiner in _DEFINITE) else 2
    )


def _complements(tree: Clause, node: str) -> list[Word]:
    """Prepositional object, predicate, direction: next to the end of the clause."""
    words: list[Word] = []
    if tree.verb.frame is Frame.PREPOSITION and tree.object is not None:
        verb = tree.verb.german
        own = node + ("p" if tree.verb.english.preposition else "v")
        words += nominal(tree.object, node + "o.", verb.case, preposition=Word(verb.preposition, (own,)))
    words += _predicate(tree.predicate, node)
    if isinstance(tree.direction, PrepositionalPhrase):
        return words + prepositional(tree.direction, node + "d.")
    return words + phrase(tree.direction, node + "d.")


def _predicate(predicate: Predicate | Amount | None, node: str) -> list[Word]:
    if predicate is None:
        return []
    if isinstance(predicate, Amount):
        return [Word(german_number(predicate.count), (node + "c",)), *phrase(predicate.unit, node + "u.")]
    if predicate.than is not None:
        than = [Word("als", (node + "k",)), *nominal(predicate.than, node + "w.", Case.NOMINATIVE)]
        return [Word(predicate.adjective.german_comparative, (node + "a",)), *than]
    degree = {"very": "sehr", "too": "zu", "": ""}[predicate.degree]
    word = Word(predicate.adjective.german, (node + "a",))
    return [Word(degree, (node + "e",)), word] if degree else [word]
