"""Adjectives, names, cities, prepositions and adverbs of the embedded grammar.

Paper: none (infrastructure)
"""

from __future__ import annotations

from dragoman.text.grammar.syntax import Adjective, Case, City, Phrase, Preposition, Word

_OBJECTS = "text thing clothing furniture vehicle"

# English [comparative] | German [comparative] [stem=...] | kinds of noun it fits ("objects": any made thing)
_ADJECTIVES = """
old older | alt älter | person animal town room objects
new newer | neu neuer | objects room town idea
small smaller | klein kleiner | person animal thing furniture vehicle clothing room town food edge idea
big bigger | groß größer | animal thing furniture vehicle clothing room town food edge idea
young younger | jung jünger | person animal
beautiful | schön schöner | person animal objects room town event edge
strong stronger | stark stärker | person animal
tired | müde stem=müd | person animal
happy happier | glücklich glücklicher | person
sad sadder | traurig trauriger | person
friendly friendlier | freundlich freundlicher | person animal
sick | krank kränker | person animal
poor poorer | arm ärmer | person
famous | berühmt berühmter | person town text
hungry hungrier | hungrig hungriger | person animal
cheap cheaper | billig billiger | objects food drink
expensive | teuer teurer stem=teur | objects food drink
heavy heavier | schwer schwerer | thing furniture vehicle
red | rot | thing clothing furniture vehicle
green | grün | thing clothing furniture vehicle
blue | blau | thing clothing furniture vehicle
black | schwarz | thing clothing furniture vehicle animal
white | weiß | clothing furniture vehicle animal
broken | kaputt | thing furniture vehicle
dirty dirtier | schmutzig schmutziger | thing clothing vehicle room
fresh fresher | frisch frischer | food
cold colder | kalt kälter | food drink room edge
hot hotter | heiß heißer | food drink
dark darker | dunkel dunkler stem=dunkl | room clothing
long longer | lang länger | text event
boring | langweilig langweiliger | text event person
important | wichtig wichtiger | text event idea person
difficult | schwierig schwieriger | idea text
"""


def _adjective(line: str) -> Adjective:
    english, german, kinds = (part.split() for part in line.replace("objects", _OBJECTS).split("|"))
    stems = [form.removeprefix("stem=") for form in german if form.startswith("stem=")]
    comparatives = [form for form in german[1:] if "=" not in form]
    both = len(english) > 1
    return Adjective(
        english=english[0],
        english_comparative=english[1] if both else "",
        german=german[0],
        german_stem=stems[0] if stems else german[0],
        german_comparative=comparatives[0] if both else "",
        kinds=frozenset(kinds),
    )


ADJECTIVES: tuple[Adjective, ...] = tuple(_adjective(line) for line in filter(None, _ADJECTIVES.splitlines()))

NAMES: tuple[str, ...] = (
    "Anna",
    "Maria",
    "Julia",
    "Laura",
    "Peter",
    "Paul",
    "Martin",
    "David",
    "Simon",
    "Sarah",
)

CITIES: tuple[City, ...] = tuple(
    City(*pair.split("/"))
    for pair in (
        "Berlin/Berlin",
        "Hamburg/Hamburg",
        "Munich/München",
        "Vienna/Wien",
        "Cologne/Köln",
        "Rome/Rom",
    )
)


def _preposition(english: str, german: str, case: Case) -> Preposition:
    return Preposition(tuple(english.split()), german, case)


INSIDE = _preposition("in", "in", Case.DATIVE)
AT = _preposition("at", "an", Case.DATIVE)
INTO = _preposition("into", "in", Case.ACCUSATIVE)
TO = _preposition("to", "zu", Case.DATIVE)
TO_CITY = _preposition("to", "nach", Case.DATIVE)
WITH = _preposition("with", "mit", Case.DATIVE)
WITHOUT = _preposition("without", "ohne", Case.ACCUSATIVE)
FOR = _preposition("for", "für", Case.ACCUSATIVE)
THAN = _preposition("than", "als", Case.NOMINATIVE)
DURING = _preposition("during", "während", Case.GENITIVE)
BECAUSE_OF = _preposition("because of", "wegen", Case.GENITIVE)
DESPITE = _preposition("despite", "trotz", Case.GENITIVE)

# Where something is (dative) and where it is put (accusative): the same English, another German case.
NEAR: tuple[tuple[str, str], ...] = (
    ("on", "auf"),
    ("under", "unter"),
    ("behind", "hinter"),
    ("next to", "neben"),
    ("in front of", "vor"),
)
WHERE_NEAR = tuple(_preposition(english, german, Case.DATIVE) for english, german in NEAR)
WHITHER_NEAR = tuple(_preposition(english, german, Case.ACCUSATIVE) for english, german in NEAR)

HOME = Phrase((Word("home", ("home",)),), (Word("nach", ("home",)), Word("Hause", ("home",))))


def _adverb(english: str, german: str) -> Phrase:
    return Phrase((Word(english, ("adverb",)),), (Word(german, ("adverb",)),))


FREQUENCIES: tuple[Phrase, ...] = (
    _adverb("often", "oft"),
    _adverb("always", "immer"),
    _adverb("never", "nie"),
    _adverb("sometimes", "manchmal"),
)
