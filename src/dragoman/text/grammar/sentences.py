"""Random sentences of the abstract syntax, of every construction the grammar has.

Paper: none (infrastructure)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dragoman.text.grammar.choice import Chooser, Weighted
from dragoman.text.grammar.clauses import (
    MAIN_TENSES,
    NOW_OR_THEN,
    SECOND_TENSES,
    VERBS,
    Clauses,
    stative,
    tenses_fit,
)
from dragoman.text.grammar.phrases import INDEFINITE, NUMBERED, PLAIN
from dragoman.text.grammar.syntax import (
    Clause,
    Existential,
    Frame,
    Gap,
    Nominal,
    NounPhrase,
    Pronoun,
    Sentence,
    Tense,
    Verb,
)
from dragoman.text.grammar.verbs import COST

_MADE = ("thing", "clothing", "furniture", "vehicle", "text")
_SUBORDINATORS: Weighted[str] = Weighted(
    ("because", 35), ("if", 15), ("although", 15), ("when", 20), ("before", 8), ("while", 7)
)
_THAT_OR_WHETHER = {"know": ("that", "whether"), "ask": ("whether",)}


def _any_verb(_: Verb) -> bool:
    return True


class Sentences:
    """Draws sentences; the same seed draws the same ones, in the same order, forever."""

    def __init__(self, seed: str) -> None:
        self.choose = Chooser(seed)
        self.clauses = Clauses(self.choose)
        self.phrases = self.clauses.phrases
        self._constructions: Weighted[Callable[[], Sentence]] = Weighted(
            (self._plain, 44),
            (self._yes_no, 6),
            (self._asked, 7),
            (self._stated, 7),
            (self._counted, 4),
            (self._existing, 3),
            (self._reported, 7),
            (self._subordinate, 9),
            (self._tried, 5),
            (self._relative_subject, 5),
            (self._relative_object, 4),
            (self._because_it, 4),
            (self._and_it, 3),
        )

    def draw(self) -> Sentence:
        """A sentence."""
        return self.choose.weighted(self._constructions)()

    def _plain(self) -> Sentence:
        return Sentence(self.clauses.clause(self.choose.weighted(MAIN_TENSES)))

    def _unfronted(self, clause: Clause) -> Clause:
        return replace(clause, front="subject") if clause.front != "subject" else clause

    def _yes_no(self) -> Sentence:
        clause = self.clauses.clause(self.choose.weighted(MAIN_TENSES), negatable=False)
        return Sentence(self._unfronted(clause), question="whether")

    def _asked(self) -> Sentence:
        """A question with a question word, which takes the place of what it asks for."""
        question = self.choose.pick(("where", "when", "why", "who", "what", "whom", "how much"))
        tense = self.choose.weighted(SECOND_TENSES)
        match question:
            case "where":
                frame = self.choose.pick((Frame.ALONE, Frame.ACCUSATIVE, Frame.DIRECTION, Frame.LOCATION))
                clause = replace(self._bare(frame, tense), direction=None, adjunct=None)
            case "when" | "why":
                frame = self.choose.pick(
                    (Frame.ALONE, Frame.ACCUSATIVE, Frame.DATIVE, Frame.DIRECTION, Frame.GIVE)
                )
                clause = self._bare(frame, tense)
            case "who":
                clause = self.clauses.clause(tense, subject=Gap(), negatable=False)
            case "how much":
                clause = Clause(self.phrases.made_thing(), COST, Tense.PRESENT)
            case _:
                clause = self._without_object(tense, persons=question == "whom")
        return Sentence(self._unfronted(clause), question=question)

    def _bare(self, frame: Frame, tense: Tense) -> Clause:
        verb = self.clauses.verb(frame, tense)
        while stative(verb):
            verb = self.clauses.verb(frame, tense)
        return self.clauses.of_verb(verb, tense, negatable=False, adorned=False)

    def _without_object(self, tense: Tense, *, persons: bool) -> Clause:
        frames = (Frame.ACCUSATIVE, Frame.DATIVE) if persons else (Frame.ACCUSATIVE,)
        verb = self._transitive(frames, tense, lambda verb: (verb.objects[0] == "person") == persons)
        subject = self.phrases.subject(verb.subjects)
        return Clause(subject, verb, tense, object=Gap())

    def _transitive(self, frames: tuple[Frame, ...], tense: Tense, fits: Callable[[Verb], bool]) -> Verb:
        """A verb with an object and a personal subject, for which `fits`."""
        verbs = [
            verb
            for frame in frames
            for verb in VERBS[frame]
            if "person" in verb.subjects and tenses_fit(verb, tense) and fits(verb)
        ]
        return self.choose.pick(verbs)

    def _stated(self) -> Sentence:
        person = self.choose.chance(0.4)
        if person:
            return Sentence(self.clauses.state(self.phrases.subject(("person",)), "person"))
        thing = self.phrases.noun_phrase((*_MADE, "animal", "room", "town", "food", "idea"), described=0)
        return Sentence(self.clauses.state(thing, thing.noun.kind))

    def _counted(self) -> Sentence:
        return Sentence(self.clauses.price() if self.choose.chance(0.5) else self.clauses.age())

    def _existing(self) -> Sentence:
        thing = self.phrases.noun_phrase(("thing", "furniture", "animal", "person"), INDEFINITE)
        return Sentence(Existential(thing, self.phrases.place(), past=self.choose.chance(0.4)))

    def _reported(self) -> Sentence:
        tense = self.choose.weighted(NOW_OR_THEN)
        verb = self.clauses.verb(Frame.CLAUSE, tense)
        links = _THAT_OR_WHETHER.get(verb.english.base, ("that",))
        main = self.clauses.of_verb(verb, tense, adorned=False)
        second = self.clauses.clause(self.choose.weighted(SECOND_TENSES), adorned=self.choose.chance(0.4))
        return Sentence(main, link=self.choose.pick(links), second=self._unfronted(second))

    def _subordinate(self) -> Sentence:
        link = self.choose.weighted(_SUBORDINATORS)
        tense = self.choose.weighted(SECOND_TENSES)
        main_tense = self.choose.weighted(SECOND_TENSES)
        if link in ("when", "before", "while", "if"):
            tense = main_tense = Tense.PRESENT if link == "if" else self.choose.weighted(NOW_OR_THEN)
        second = self._unfronted(self.clauses.clause(tense, adorned=self.choose.chance(0.2)))
        main = self._unfronted(self.clauses.clause(main_tense, adorned=self.choose.chance(0.2)))
        return Sentence(main, link=link, second=second, second_first=self.choose.chance(0.4))

    def _tried(self) -> Sentence:
        """ "tries to call his brother"."""
        tense = self.choose.weighted(NOW_OR_THEN)
        main = self.clauses.of_verb(
            self.clauses.verb(Frame.INFINITIVE, tense), tense, negatable=False, adorned=False
        )
        frame = self.choose.pick(
            (Frame.ACCUSATIVE, Frame.ACCUSATIVE, Frame.DATIVE, Frame.GIVE, Frame.DIRECTION)
        )
        verb = self._transitive((frame,), Tense.INFINITIVE, _any_verb)
        second = self.clauses.of_verb(
            verb, Tense.INFINITIVE, subject=main.subject, negatable=False, adorned=self.choose.chance(0.4)
        )
        return Sentence(main, link="to", second=self._unfronted(second))

    def _relative_subject(self) -> Sentence:
        head = self._with_relative(self.phrases.noun_phrase(("person",), NUMBERED, described=0.2))
        tense = self.choose.weighted(SECOND_TENSES)
        clause = self.clauses.clause(tense, subject=head, negatable=False, adorned=self.choose.chance(0.3))
        return Sentence(self._unfronted(clause))

    def _relative_object(self) -> Sentence:
        tense = self.choose.weighted(MAIN_TENSES)
        verb = self._transitive(
            (Frame.ACCUSATIVE,), tense, lambda verb: verb.objects[0] not in ("room", "town")
        )
        subject = self.phrases.subject(verb.subjects)
        head = self.phrases.noun_phrase(verb.objects, NUMBERED, described=0.2)
        while isinstance(subject, NounPhrase) and subject.noun is head.noun:
            subject = self.phrases.subject(verb.subjects)
        return Sentence(Clause(subject, verb, tense, object=self._with_relative(head)))

    def _with_relative(self, head: NounPhrase) -> NounPhrase:
        """The noun phrase with a relative clause whose subject, or whose object, it is."""
        tense = self.choose.weighted(SECOND_TENSES)
        kind = head.noun.kind
        if kind == "person" and self.choose.chance(0.5):
            verb = self._transitive((Frame.ACCUSATIVE, Frame.DATIVE, Frame.PREPOSITION), tense, _any_verb)
            thing = self.clauses.thing(verb, head, negated=False)
            return replace(head, relative=Clause(Gap(head.plural), verb, tense, object=thing))
        verb = self._transitive((Frame.ACCUSATIVE, Frame.DATIVE), tense, lambda verb: kind in verb.objects)
        subject = self.phrases.subject(("person",), PLAIN)
        return replace(head, relative=Clause(subject, verb, tense, object=Gap()))

    def _thing_bought(self, tense: Tense) -> tuple[Clause, NounPhrase]:
        """A clause about one thing, so that "it" or "they" after it can be nothing else."""
        verb = self._transitive(
            (Frame.ACCUSATIVE,), tense, lambda verb: set(verb.objects) & set(_MADE) != set()
        )
        kinds = tuple(kind for kind in verb.objects if kind in _MADE)
        subject = self.phrases.subject(("person",), PLAIN)
        thing = self.phrases.noun_phrase(kinds, NUMBERED)
        return Clause(subject, verb, tense, object=thing), thing

    def _because_it(self) -> Sentence:
        """ "buys the table because it is cheap": German gives "it" the gender of "Tisch"."""
        main, thing = self._thing_bought(self.choose.weighted(SECOND_TENSES))
        second = self.clauses.state(self._again(thing), thing.noun.kind)
        return Sentence(main, link=self.choose.pick(("because", "but", "although")), second=second)

    def _and_it(self) -> Sentence:
        """ "buys a lamp and gives it to his sister"."""
        main, thing = self._thing_bought(Tense.PRESENT)
        again = self._again(thing)
        verb = self._transitive(
            (Frame.ACCUSATIVE, Frame.GIVE),
            Tense.PRESENT,
            lambda verb: (
                thing.noun.kind in verb.objects and not stative(verb) and verb.lemma != main.verb.lemma
            ),
        )
        recipient: Nominal | None = None
        if verb.frame is Frame.GIVE:
            recipient = self.phrases.object(("person",), main.subject, NUMBERED)
        return Sentence(
            main,
            link="and",
            second=Clause(main.subject, verb, Tense.PRESENT, object=again, recipient=recipient),
        )

    def _again(self, thing: NounPhrase) -> Pronoun:
        return Pronoun("they") if thing.plural else Pronoun("it", thing.noun.gender)
