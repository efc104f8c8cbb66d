"""Random clauses of the abstract syntax: a verb, what its frame asks for, and what may be added.

Paper: none (infrastructure)
"""

from __future__ import annotations

from dragoman.text.grammar import modifiers
from dragoman.text.grammar.choice import Chooser, Weighted
from dragoman.text.grammar.phrases import (
    ANY_DETERMINER,
    DEFINITE,
    NEGATABLE,
    NUMBERED,
    PLAIN,
    POSSESSIVES,
    Phrases,
    adjectives_for,
)
from dragoman.text.grammar.syntax import (
    Amount,
    Case,
    Clause,
    Frame,
    Nominal,
    NounPhrase,
    Phrase,
    Predicate,
    PrepositionalPhrase,
    Pronoun,
    Tense,
    Verb,
)
from dragoman.text.grammar.times import EUROS, YEARS_OLD, groups_for
from dragoman.text.grammar.verbs import BE, COST, verbs_of

TIMES = {tense: groups_for(tense) for tense in Tense}
MAIN_TENSES: Weighted[Tense] = Weighted(
    (Tense.PRESENT, 32),
    (Tense.PAST, 22),
    (Tense.PERFECT, 9),
    (Tense.FUTURE, 11),
    (Tense.CAN, 5),
    (Tense.MUST, 5),
    (Tense.WANT, 5),
    (Tense.SHOULD, 4),
    (Tense.MAY, 3),
    (Tense.LIKE, 4),
)
SECOND_TENSES: Weighted[Tense] = Weighted(
    (Tense.PRESENT, 40),
    (Tense.PAST, 25),
    (Tense.FUTURE, 10),
    (Tense.CAN, 7),
    (Tense.MUST, 9),
    (Tense.WANT, 9),
)
NOW_OR_THEN: Weighted[Tense] = Weighted((Tense.PRESENT, 60), (Tense.PAST, 40))
_STATES: Weighted[Tense] = Weighted((Tense.PRESENT, 60), (Tense.PAST, 30), (Tense.FUTURE, 10))
FRAMES: Weighted[Frame] = Weighted(
    (Frame.ALONE, 16),
    (Frame.ACCUSATIVE, 40),
    (Frame.DATIVE, 9),
    (Frame.GIVE, 11),
    (Frame.PREPOSITION, 9),
    (Frame.DIRECTION, 9),
    (Frame.LOCATION, 4),
    (Frame.PLACEMENT, 3),
)
VERBS = {frame: verbs_of(frame) for frame in Frame}
_OFTEN = (Tense.PRESENT, Tense.PAST, Tense.PERFECT, Tense.FUTURE)
_DEGREES: Weighted[str] = Weighted(("", 50), ("very", 30), ("too", 20))


def _infinitives(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Named by their German infinitive: verbs that go well with company, with a beneficiary, and not with a place.
_TOGETHER = _infinitives(
    "arbeiten tanzen kochen kommen essen trinken gehen fahren reisen kehren räumen tragen"
)
_FOR_SOMEBODY = _infinitives("kaufen suchen reparieren kochen waschen schreiben finden tragen")
_PLACELESS = _infinitives("besuchen räumen lieben brauchen vergessen erinnern vertrauen glauben verschwinden")


def stative(verb: Verb) -> bool:
    """Whether the verb names a state: no modal, no place, no time; German puts its past in the preterite."""
    return bool(verb.german.preterite)


def tenses_fit(verb: Verb, tense: Tense) -> bool:
    """Whether the verb can be said in this tense without being mistaken for another one."""
    if tense is Tense.PAST and not (verb.english.past or verb.german.preterite):
        return False
    return not stative(verb) or tense in (Tense.PRESENT, Tense.PAST)


class Clauses:
    """Draws clauses."""

    def __init__(self, choose: Chooser) -> None:
        self.choose = choose
        self.phrases = Phrases(choose)

    def clause(
        self, tense: Tense, *, subject: Nominal | None = None, negatable: bool = True, adorned: bool = True
    ) -> Clause:
        """A clause of any frame.

        Args:
            tense: its tense.
            subject: its subject, a person; None draws one.
            negatable: whether it may be negated.
            adorned: whether times, places and the like may be added.
        """
        verb = self.verb(self.choose.weighted(FRAMES), tense)
        while subject is not None and "person" not in verb.subjects:
            verb = self.verb(self.choose.weighted(FRAMES), tense)
        return self.of_verb(verb, tense, subject=subject, negatable=negatable, adorned=adorned)

    def verb(self, frame: Frame, tense: Tense) -> Verb:
        """A verb of the frame that the tense fits."""
        verb = self.choose.pick(VERBS[frame])
        while not tenses_fit(verb, tense):
            verb = self.choose.pick(VERBS[frame])
        return verb

    def of_verb(
        self,
        verb: Verb,
        tense: Tense,
        *,
        subject: Nominal | None = None,
        negatable: bool = True,
        adorned: bool = True,
    ) -> Clause:
        """A clause of this verb; arguments as in `clause`."""
        negated = negatable and tense is not Tense.LIKE and self.choose.chance(0.14)
        if subject is None:
            subject = self.phrases.subject(verb.subjects, DEFINITE if negated else ANY_DETERMINER)
        thing = self.thing(verb, subject, negated=negated)
        recipient = self._recipient(verb, subject, negated=negated)
        adjunct = self._adjunct(verb, negated=negated, adorned=adorned)
        time, frequency = self._when(verb, tense, negated=negated) if adorned else (None, None)
        if adjunct is not None and adjunct.preposition.case is Case.GENITIVE:
            frequency = None  # "never because of the storm" can be read two ways
        return Clause(
            subject=subject,
            verb=verb,
            tense=tense,
            negated=negated,
            object=thing,
            recipient=recipient,
            recipient_first=self._recipient_first(verb, thing, recipient),
            direction=self._direction(verb),
            adjunct=adjunct,
            time=time,
            frequency=frequency,
            front=self._front(time, adjunct),
        )

    def thing(self, verb: Verb, subject: Nominal, *, negated: bool) -> Nominal | None:
        """The object, if the verb has one."""
        if not verb.objects:
            return None
        definite = verb.frame in (Frame.DATIVE, Frame.PREPOSITION)
        negatable = DEFINITE if definite else NEGATABLE
        return self.phrases.object(verb.objects, subject, negatable if negated else ANY_DETERMINER)

    def _recipient(self, verb: Verb, subject: Nominal, *, negated: bool) -> Nominal | None:
        if verb.frame is not Frame.GIVE:
            return None
        return self.phrases.object(("person",), subject, DEFINITE if negated else NUMBERED)

    def _recipient_first(self, verb: Verb, thing: Nominal | None, recipient: Nominal | None) -> bool:
        """Whether English says "gives her a book"; "gives her books" could be her own."""
        if recipient is None or verb.english.particle or isinstance(thing, Pronoun):
            return False
        bare = isinstance(thing, NounPhrase) and thing.determiner in ("bare", "number", "many", "some", "all")
        return not (bare and isinstance(recipient, Pronoun)) and self.choose.chance(0.5)

    def _direction(self, verb: Verb) -> PrepositionalPhrase | Phrase | None:
        if verb.frame is Frame.PLACEMENT:
            return self.phrases.near(("furniture",), moving=True)
        if verb.frame is not Frame.DIRECTION:
            return None
        return modifiers.HOME if self.choose.chance(0.1) else self.phrases.direction()

    def _adjunct(self, verb: Verb, *, negated: bool, adorned: bool) -> PrepositionalPhrase | None:
        infinitive = verb.german.infinitive
        if verb.frame is Frame.LOCATION:
            standing = "person" not in verb.subjects
            return self.phrases.near(("furniture",), moving=False) if standing else self.phrases.place()
        if (
            not adorned
            or stative(verb)
            or verb.frame in (Frame.PLACEMENT, Frame.GIVE)
            or self.choose.chance(0.68)
        ):
            return None
        if infinitive in _TOGETHER and self.choose.chance(0.5):
            return self.phrases.companion(benefit=False)
        if infinitive in _FOR_SOMEBODY and self.choose.chance(0.4):
            return self.phrases.companion(benefit=True)
        if not negated and verb.frame in (Frame.ALONE, Frame.ACCUSATIVE) and self.choose.chance(0.2):
            return self.phrases.circumstance()
        nowhere = infinitive in _PLACELESS or verb.frame is Frame.DIRECTION
        return None if nowhere else self.phrases.place()

    def _when(self, verb: Verb, tense: Tense, *, negated: bool) -> tuple[Phrase | None, Phrase | None]:
        """A time or a frequency, or neither."""
        if stative(verb):
            return None, None
        if TIMES[tense] and self.choose.chance(0.36):
            return self.choose.pick(self.choose.pick(TIMES[tense])), None
        if tense in _OFTEN and not negated and self.choose.chance(0.12):
            return None, self.choose.pick(modifiers.FREQUENCIES)
        return None, None

    def _front(self, time: Phrase | None, adjunct: PrepositionalPhrase | None) -> str:
        if time is not None and self.choose.chance(0.45):
            return "time"
        if time is None and adjunct is not None and self.choose.chance(0.15):
            return "adjunct"
        return "subject"

    def state(self, subject: Nominal, kind: str) -> Clause:
        """ "The house is very old": a predicate that fits the kind of the subject."""
        adjective = self.choose.pick(adjectives_for(kind))
        than = None
        if adjective.english_comparative and self.choose.chance(0.3):
            than = self.phrases.noun_phrase((kind,), PLAIN, described=0)
        return Clause(
            subject=subject,
            verb=BE,
            tense=self.choose.weighted(_STATES),
            negated=self._definite(subject) and self.choose.chance(0.15),
            predicate=Predicate(adjective, "" if than else self.choose.weighted(_DEGREES), than),
        )

    def _definite(self, subject: Nominal) -> bool:
        return not isinstance(subject, NounPhrase) or subject.determiner in ("the", "this", *POSSESSIVES)

    def price(self) -> Clause:
        """ "The book costs thirty euros"."""
        amount = Amount(self.phrases.count(), EUROS)
        return Clause(self.phrases.made_thing(), COST, Tense.PRESENT, predicate=amount)

    def age(self) -> Clause:
        """ "My brother is thirty-four years old"."""
        subject = self.phrases.subject(("person",), PLAIN)
        return Clause(subject, BE, Tense.PRESENT, predicate=Amount(self.choose.number(13, 99), YEARS_OLD))
