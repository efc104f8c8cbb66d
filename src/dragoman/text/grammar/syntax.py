"""Abstract syntax of the embedded grammar: what a sentence says, before either language words it.

Paper: none (infrastructure)

A `Sentence` is a tree of frozen dataclasses. `english.py` and `german.py` word the same tree, and give each
word the names of the tree's nodes it stands for; words of the two languages that share a node are aligned.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Word(NamedTuple):
    """One word or punctuation mark and the nodes of the tree it stands for."""

    text: str
    nodes: tuple[str, ...]


class Tense(Enum):
    """Tense or mood of a clause; English and German each have their own way to say it."""

    PRESENT = "present"
    PAST = "past"
    PERFECT = "perfect"
    FUTURE = "future"
    CAN = "can"
    MUST = "must"
    SHOULD = "should"
    MAY = "may"
    WANT = "want"
    LIKE = "like"
    INFINITIVE = "infinitive"


class Agreement(Enum):
    """Person and number of a subject. There is no second person: English "you" has three Germans."""

    FIRST_SINGULAR = 0
    THIRD_SINGULAR = 1
    FIRST_PLURAL = 2
    THIRD_PLURAL = 3


class Case(Enum):
    """The four German cases."""

    NOMINATIVE = 0
    ACCUSATIVE = 1
    DATIVE = 2
    GENITIVE = 3


class Frame(Enum):
    """What a verb asks for besides its subject."""

    ALONE = "alone"
    ACCUSATIVE = "accusative"
    DATIVE = "dative"
    GIVE = "give"
    PREPOSITION = "preposition"
    DIRECTION = "direction"
    LOCATION = "location"
    PLACEMENT = "placement"
    PREDICATE = "predicate"
    AMOUNT = "amount"
    CLAUSE = "clause"
    INFINITIVE = "infinitive"


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in both languages. `kind` says what it can do; a `weak` one takes -(e)n in other cases."""

    english: tuple[str, ...]
    english_plural: tuple[str, ...]
    german: str
    genitive: str
    german_plural: str
    gender: str
    kind: str
    weak: bool
    mass: bool

    @property
    def lemma(self) -> str:
        """The English singular."""
        return " ".join(self.english)


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective: as predicate, stem that takes endings, comparatives (or ""), kinds of noun it fits."""

    english: str
    english_comparative: str
    german: str
    german_stem: str
    german_comparative: str
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Preposition:
    """A preposition of a place, a companion or a circumstance, with the case it takes in German."""

    english: tuple[str, ...]
    german: str
    case: Case


@dataclass(frozen=True, slots=True, eq=False)
class EnglishVerb:
    """English forms. `particle` goes behind a pronoun ("picks him up"), `preposition` before it."""

    base: str
    third: str
    past: str
    participle: str
    particle: str
    preposition: str


@dataclass(frozen=True, slots=True, eq=False)
class GermanVerb:
    """German forms. `prefix` is separable; `preterite` (singular) is set where it is used for the past."""

    prefix: str
    infinitive: str
    ich: str
    er: str
    wir: str
    participle: str
    auxiliary: str
    preterite: str
    reflexive: bool
    preposition: str
    case: Case


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages, its frame, and the kinds of noun that can be its subject and its object."""

    lemma: str
    english: EnglishVerb
    german: GermanVerb
    frame: Frame
    subjects: tuple[str, ...]
    objects: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Phrase:
    """A fixed expression, such as a time: words with node names of their own, in both languages."""

    english: tuple[Word, ...]
    german: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A personal pronoun, named by its English subject form; `gender` is the antecedent's, for "it"."""

    english: str
    gender: str = ""


@dataclass(frozen=True, slots=True)
class Name:
    """A first name, the same in both languages."""

    text: str


@dataclass(frozen=True, slots=True)
class City:
    """A city: no article, and its own German preposition of direction."""

    english: str
    german: str


@dataclass(frozen=True, slots=True)
class Gap:
    """The place of a nominal that a question word or a relative pronoun stands for."""

    plural: bool = False


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun with determiner ("the", "a", "bare", "this", "number", "owner" ...), adjective and more."""

    determiner: str
    noun: Noun
    plural: bool = False
    adjective: Adjective | None = None
    count: int = 0
    owner: NounPhrase | Name | None = None
    relative: Clause | None = None


Nominal = NounPhrase | Pronoun | Name | Gap


@dataclass(frozen=True, slots=True)
class PrepositionalPhrase:
    """A preposition and what it governs."""

    preposition: Preposition
    nominal: NounPhrase | Name | City


@dataclass(frozen=True, slots=True)
class Predicate:
    """What "be" says of its subject: "very old", "older than the house"."""

    adjective: Adjective
    degree: str = ""
    than: NounPhrase | None = None


@dataclass(frozen=True, slots=True)
class Amount:
    """A number with its unit: "thirty euros", "thirty years old"."""

    count: int
    unit: Phrase


@dataclass(frozen=True, slots=True)
class Clause:
    """One verb with all that hangs on it. `front` says what is before the verb instead of the subject."""

    subject: Nominal
    verb: Verb
    tense: Tense
    negated: bool = False
    object: Nominal | None = None
    recipient: Nominal | None = None
    recipient_first: bool = False
    direction: PrepositionalPhrase | Phrase | None = None
    adjunct: PrepositionalPhrase | None = None
    time: Phrase | None = None
    frequency: Phrase | None = None
    predicate: Predicate | Amount | None = None
    front: str = "subject"


@dataclass(frozen=True, slots=True)
class Existential:
    """There is a thing somewhere."""

    thing: NounPhrase
    place: PrepositionalPhrase
    past: bool


@dataclass(frozen=True, slots=True)
class Sentence:
    """A main clause, perhaps asked, perhaps with a second clause.

    Attributes:
        main: the main clause.
        question: "" for a statement, "whether" for a yes/no question, else the question word ("where").
        link: the word that joins `second`: a subordinator, "that", "whether", "to", "but" or "and".
        second: the second clause, if any.
        second_first: whether the second clause opens the sentence.
    """

    main: Clause | Existential
    question: str = ""
    link: str = ""
    second: Clause | None = None
    second_first: bool = False


def agreement(subject: Nominal) -> Agreement:
    """Person and number that the finite verb takes from its subject, the same in both languages."""
    match subject:
        case Pronoun(english):
            return _PRONOUN_AGREEMENT[english]
        case NounPhrase(plural=plural) | Gap(plural):
            return Agreement.THIRD_PLURAL if plural else Agreement.THIRD_SINGULAR
        case Name():
            return Agreement.THIRD_SINGULAR


_PRONOUN_AGREEMENT = {
    "I": Agreement.FIRST_SINGULAR,
    "he": Agreement.THIRD_SINGULAR,
    "she": Agreement.THIRD_SINGULAR,
    "it": Agreement.THIRD_SINGULAR,
    "we": Agreement.FIRST_PLURAL,
    "they": Agreement.THIRD_PLURAL,
}
