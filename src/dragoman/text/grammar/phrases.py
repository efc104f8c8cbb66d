"""Random noun phrases and prepositional phrases of the abstract syntax.

Paper: none (infrastructure)
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from dragoman.text.grammar import modifiers
from dragoman.text.grammar.choice import Chooser, Weighted
from dragoman.text.grammar.nouns import nouns_of
from dragoman.text.grammar.syntax import (
    Adjective,
    Name,
    Nominal,
    Noun,
    NounPhrase,
    PrepositionalPhrase,
    Pronoun,
)

POSSESSIVES = ("my", "his", "her", "our", "their")
_MADE = ("text", "thing", "clothing", "furniture", "vehicle")

# Determiner and whether the noun is plural.
ANY_DETERMINER: Weighted[tuple[str, bool]] = Weighted(
    (("the", False), 30),
    (("the", True), 11),
    (("a", False), 16),
    (("bare", True), 6),
    (("this", False), 5),
    (("this", True), 3),
    (("possessive", False), 11),
    (("possessive", True), 4),
    (("number", True), 5),
    (("every", False), 2),
    (("all", True), 2),
    (("many", True), 2),
    (("some", True), 2),
    (("owner", False), 4),
)
DEFINITE: Weighted[tuple[str, bool]] = Weighted(
    (("the", False), 40),
    (("the", True), 15),
    (("this", False), 8),
    (("possessive", False), 20),
    (("possessive", True), 5),
)
NEGATABLE: Weighted[tuple[str, bool]] = Weighted(
    (("the", False), 30),
    (("the", True), 10),
    (("a", False), 30),
    (("bare", True), 10),
    (("possessive", False), 20),
)
NUMBERED: Weighted[tuple[str, bool]] = Weighted(
    (("the", False), 30),
    (("the", True), 15),
    (("a", False), 25),
    (("this", False), 10),
    (("possessive", False), 20),
)
INDEFINITE: Weighted[tuple[str, bool]] = Weighted(
    (("a", False), 40),
    (("bare", True), 10),
    (("number", True), 20),
    (("many", True), 10),
    (("no", False), 20),
)
PLAIN: Weighted[tuple[str, bool]] = Weighted(
    (("the", False), 80), (("this", False), 10), (("possessive", False), 10)
)
_MASS: Weighted[str] = Weighted(("the", 35), ("bare", 50), ("possessive", 15))

# "I" is drawn more often: its verb forms are its own, and must be seen often enough.
_SUBJECT_PRONOUNS = ("I", "I", "he", "she", "we", "they")
_OTHERS = ("he", "she", "they")


@cache
def _nouns(kinds: tuple[str, ...]) -> tuple[Noun, ...]:
    return nouns_of(kinds)


@cache
def adjectives_for(kind: str) -> tuple[Adjective, ...]:
    """The adjectives that fit this kind of noun."""
    return tuple(adjective for adjective in modifiers.ADJECTIVES if kind in adjective.kinds)


class Phrases:
    """Draws noun phrases and prepositional phrases."""

    def __init__(self, choose: Chooser) -> None:
        self.choose = choose

    def noun_phrase(
        self,
        kinds: tuple[str, ...],
        determiners: Weighted[tuple[str, bool]] = ANY_DETERMINER,
        *,
        described: float = 0.3,
    ) -> NounPhrase:
        """A noun phrase of one of the kinds.

        Args:
            kinds: kinds of noun.
            determiners: what to draw the determiner and the number from.
            described: how likely an adjective is.
        """
        noun = self.choose.pick(_nouns(kinds))
        determiner, plural = self._determiner(noun, determiners)
        adjectives = adjectives_for(noun.kind) if self.choose.chance(described) else ()
        return NounPhrase(
            determiner=determiner,
            noun=noun,
            plural=plural,
            adjective=self.choose.pick(adjectives) if adjectives else None,
            count=self.count() if determiner == "number" else 0,
            owner=self._owner(noun) if determiner == "owner" else None,
        )

    def _determiner(self, noun: Noun, determiners: Weighted[tuple[str, bool]]) -> tuple[str, bool]:
        determiner, plural = self.choose.weighted(determiners)
        if noun.mass:
            determiner, plural = self.choose.weighted(_MASS), False
        if determiner == "possessive":
            determiner = self.choose.pick(POSSESSIVES)
        return determiner, plural

    def _owner(self, owned: Noun) -> NounPhrase | Name:
        if self.choose.chance(0.4):
            return Name(self.choose.pick(modifiers.NAMES))
        owner = self.noun_phrase(("person",), PLAIN, described=0)
        return (
            owner if owner.noun is not owned else replace(owner, determiner="my", noun=_nouns(("animal",))[0])
        )

    def count(self) -> int:
        """A number from 2 to 99, mostly small."""
        return self.choose.number(2, 12) if self.choose.chance(0.75) else self.choose.number(13, 99)

    def subject(
        self, kinds: tuple[str, ...], determiners: Weighted[tuple[str, bool]] = ANY_DETERMINER
    ) -> Nominal:
        """A subject: a pronoun or a name if persons are allowed, or a noun phrase."""
        point = self.choose.number(0, 99) if "person" in kinds else 99
        if point < 22:
            return Pronoun(self.choose.pick(_SUBJECT_PRONOUNS))
        if point < 34:
            return Name(self.choose.pick(modifiers.NAMES))
        return self.noun_phrase(kinds, determiners)

    def object(
        self,
        kinds: tuple[str, ...],
        subject: Nominal,
        determiners: Weighted[tuple[str, bool]] = ANY_DETERMINER,
    ) -> Nominal:
        """An object that is not the subject again."""
        point = self.choose.number(0, 99) if "person" in kinds else 99
        if point < 18:
            return self._object_pronoun(subject)
        if point < 28:
            return Name(self.choose.pick([name for name in modifiers.NAMES if subject != Name(name)]))
        phrase = self._any_of(kinds, determiners)
        while isinstance(subject, NounPhrase) and subject.noun is phrase.noun:
            phrase = self._any_of(kinds, determiners)
        return phrase

    def _any_of(self, kinds: tuple[str, ...], determiners: Weighted[tuple[str, bool]]) -> NounPhrase:
        """A noun phrase with every kind equally likely, so that small kinds are seen often enough."""
        return self.noun_phrase((self.choose.pick(kinds),), determiners)

    def _object_pronoun(self, subject: Nominal) -> Pronoun:
        first = isinstance(subject, Pronoun) and subject.english in ("I", "we")
        return Pronoun(self.choose.pick(_OTHERS if first else _SUBJECT_PRONOUNS))

    def place(self) -> PrepositionalPhrase:
        """Where something happens."""
        point = self.choose.number(0, 99)
        if point < 15:
            return PrepositionalPhrase(modifiers.INSIDE, self.choose.pick(modifiers.CITIES))
        if point < 30:
            return PrepositionalPhrase(modifiers.AT, self._spot(("edge",)))
        return PrepositionalPhrase(modifiers.INSIDE, self._spot(("room", "town")))

    def near(self, kinds: tuple[str, ...], *, moving: bool) -> PrepositionalPhrase:
        """On, under, behind ... something: where it is, or where it is put."""
        return PrepositionalPhrase(
            self.choose.pick(modifiers.WHITHER_NEAR if moving else modifiers.WHERE_NEAR), self._spot(kinds)
        )

    def direction(self) -> PrepositionalPhrase:
        """Where somebody goes."""
        point = self.choose.number(0, 99)
        if point < 20:
            return PrepositionalPhrase(modifiers.TO_CITY, self.choose.pick(modifiers.CITIES))
        if point < 50:
            return PrepositionalPhrase(modifiers.INTO, self._spot(("room", "town")))
        return PrepositionalPhrase(modifiers.TO, self._spot(("room", "town", "edge")))

    def _spot(self, kinds: tuple[str, ...]) -> NounPhrase:
        return self.noun_phrase(kinds, PLAIN, described=0.2)

    def companion(self, *, benefit: bool) -> PrepositionalPhrase:
        """With, without or, for a `benefit`, for somebody."""
        prepositions = (modifiers.FOR,) if benefit else (modifiers.WITH, modifiers.WITH, modifiers.WITHOUT)
        preposition = self.choose.pick(prepositions)
        if self.choose.chance(0.2):
            return PrepositionalPhrase(preposition, Name(self.choose.pick(modifiers.NAMES)))
        return PrepositionalPhrase(preposition, self.noun_phrase(("person",), DEFINITE, described=0.2))

    def circumstance(self) -> PrepositionalPhrase:
        """During, because of or despite something: the German genitive."""
        preposition = self.choose.pick((modifiers.DURING, modifiers.BECAUSE_OF, modifiers.DESPITE))
        return PrepositionalPhrase(preposition, self.noun_phrase(("event",), PLAIN, described=0.3))

    def made_thing(self) -> NounPhrase:
        """A thing that can be bought, seen and put somewhere."""
        return self.noun_phrase(_MADE, NUMBERED)
