"""German verb groups: the finite verb, and what waits at the end of the clause.

Paper: none (infrastructure)
"""

from __future__ import annotations

from typing import NamedTuple

from dragoman.text.grammar.syntax import Agreement, Clause, GermanVerb, Tense, Word, agreement


class VerbGroup(NamedTuple):
    """The verb of a clause.

    Attributes:
        finite: the finite verb where it stands apart, in second or first place.
        tail: what then closes the clause: separable prefix, participle or infinitive.
        last: the whole verb where all of it comes last.
    """

    finite: Word
    tail: tuple[Word, ...]
    last: tuple[Word, ...]


# First and third person singular, then plural.
_AUXILIARIES = {
    Tense.FUTURE: ("werde", "wird", "werden"),
    Tense.CAN: ("kann", "kann", "können"),
    Tense.MUST: ("muss", "muss", "müssen"),
    Tense.SHOULD: ("sollte", "sollte", "sollten"),
    Tense.MAY: ("darf", "darf", "dürfen"),
    Tense.WANT: ("will", "will", "wollen"),
}
_PERFECT = {"haben": ("habe", "hat", "haben"), "sein": ("bin", "ist", "sind")}


def verb_group(tree: Clause, node: str) -> VerbGroup:
    """The verb of a clause in its tense, agreeing with its subject."""
    verb, who, tense = tree.verb.german, agreement(tree.subject), tree.tense
    if tense is Tense.INFINITIVE:
        return _infinitive(verb, node)
    if tense in _AUXILIARIES:
        # "must not" forbids, which German says with "dürfen".
        forms = _AUXILIARIES[Tense.MAY if tense is Tense.MUST and tree.negated else tense]
        return _compound(_pick(forms, who), verb.prefix + verb.infinitive, node)
    if tense is Tense.PERFECT or (tense is Tense.PAST and not verb.preterite):
        return _compound(_pick(_PERFECT[verb.auxiliary], who), verb.participle, node)
    if tense is Tense.PAST:
        return _simple(verb, _pick(_preterite(verb), who), node)
    return _simple(verb, _pick((verb.ich, verb.er, verb.wir), who), node)


def _pick(forms: tuple[str, str, str], who: Agreement) -> str:
    if who is Agreement.FIRST_SINGULAR:
        return forms[0]
    return forms[1] if who is Agreement.THIRD_SINGULAR else forms[2]


def _preterite(verb: GermanVerb) -> tuple[str, str, str]:
    singular = verb.preterite
    return singular, singular, singular + ("n" if singular.endswith("e") else "en")


def _simple(verb: GermanVerb, text: str, node: str) -> VerbGroup:
    """One verb form; a separable prefix parts from it except at the end of the clause."""
    tag = (node + "t", node + "v")
    tail = (Word(verb.prefix, (node + "v",)),) if verb.prefix else ()
    return VerbGroup(Word(text, tag), tail, (Word(verb.prefix + text, tag),))


def _compound(auxiliary: str, main: str, node: str) -> VerbGroup:
    finite, closing = Word(auxiliary, (node + "t",)), Word(main, (node + "v",))
    return VerbGroup(finite, (closing,), (closing, finite))


def _infinitive(verb: GermanVerb, node: str) -> VerbGroup:
    """The infinitive with "zu", which goes between a separable prefix and its verb."""
    if verb.prefix:
        words: tuple[Word, ...] = (Word(f"{verb.prefix}zu{verb.infinitive}", (node + "t", node + "v")),)
    else:
        words = (Word("zu", (node + "t",)), Word(verb.infinitive, (node + "v",)))
    return VerbGroup(words[0], words[1:], words)
