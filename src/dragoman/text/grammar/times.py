"""Numbers in words, and expressions of time: days, clock times, dates, years, durations.

Paper: none (infrastructure)

German says the units before the tens ("einundzwanzig"), and counts a half hour towards the hour to come
("halb acht" is half past seven). Each expression carries its own alignment.
"""

from __future__ import annotations

from dragoman.text.grammar.syntax import Phrase, Tense, Word


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ENGLISH = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_GERMAN = _words(
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn"
)
_ENGLISH_TENS = _words("- ten twenty thirty forty fifty sixty seventy eighty ninety")
_GERMAN_TENS = _words("- zehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")

_PRESENT = (Tense.PRESENT, Tense.CAN, Tense.MUST, Tense.SHOULD, Tense.MAY, Tense.WANT, Tense.INFINITIVE)
_COMING = (Tense.FUTURE, Tense.CAN, Tense.MUST, Tense.SHOULD, Tense.MAY, Tense.WANT)
_GONE = (Tense.PAST,)
_HABIT = (Tense.PRESENT, Tense.LIKE)
_ANY = (*_COMING, *_GONE, Tense.PRESENT)


def english_number(number: int) -> str:
    """A number from 0 to 99 in English words: "twenty-one"."""
    tens, units = divmod(number, 10)
    if number < 20:
        return _ENGLISH[number]
    return _ENGLISH_TENS[tens] + (f"-{_ENGLISH[units]}" if units else "")


def german_number(number: int) -> str:
    """A number from 0 to 99 in German words, as it stands before a noun: "einundzwanzig"."""
    tens, units = divmod(number, 10)
    if number < 20:
        return _GERMAN[number]
    return (f"{_GERMAN[units]}und" if units else "") + _GERMAN_TENS[tens]


def _phrase(english: str, german: str) -> Phrase:
    """A phrase from "word:node" items; a word without a node is its own, by place."""

    def words(text: str) -> tuple[Word, ...]:
        parts = (item.partition(":") for item in text.split())
        return tuple(Word(word, (node or str(k),)) for k, (word, _, node) in enumerate(parts))

    return Phrase(words(english), words(german))


DAYS = (
    ("Monday", "Montag"),
    ("Tuesday", "Dienstag"),
    ("Wednesday", "Mittwoch"),
    ("Thursday", "Donnerstag"),
    ("Friday", "Freitag"),
    ("Saturday", "Samstag"),
    ("Sunday", "Sonntag"),
)
MONTHS = (
    ("January", "Januar"),
    ("February", "Februar"),
    ("March", "März"),
    ("April", "April"),
    ("May", "Mai"),
    ("June", "Juni"),
    ("July", "Juli"),
    ("August", "August"),
    ("September", "September"),
    ("October", "Oktober"),
    ("November", "November"),
    ("December", "Dezember"),
)
PARTS_OF_DAY = (("morning", "Morgen"), ("afternoon", "Nachmittag"), ("evening", "Abend"))
UNITS = (("days", "Tagen"), ("weeks", "Wochen"), ("months", "Monaten"), ("years", "Jahren"))


def _hour(number: int) -> str:
    return "eins" if number == 1 else german_number(number)


def _clock_times() -> list[Phrase]:
    phrases = []
    for hour in range(1, 13):
        after = hour % 12 + 1
        english = english_number(hour)
        phrases.append(_phrase(f"at {english} o'clock", f"um {german_number(hour)} Uhr"))
        phrases.append(_phrase(f"at half:h past:h {english}:2", f"um halb:h {_hour(after)}:2"))
        phrases.append(
            _phrase(f"at a:q quarter:q past:p {english}:4", f"um Viertel:q nach:p {_hour(hour)}:4")
        )
        phrases.append(_phrase(f"at a:q quarter:q to:p {english}:4", f"um Viertel:q vor:p {_hour(hour)}:4"))
    return phrases


def _dates() -> list[Phrase]:
    return [
        _phrase(f"on {english}:m {day}:d", f"am {day}.:d {german}:m")
        for english, german in MONTHS
        for day in range(1, 29)
    ]


def _days() -> list[Phrase]:
    plain = [_phrase(f"on {english}", f"am {german}") for english, german in DAYS]
    return plain + [
        _phrase(f"on {english} {part}:1", f"am {german}{teil.lower()}")
        for english, german in DAYS
        for part, teil in PARTS_OF_DAY
    ]


def _spans(english: str, german: str) -> list[Phrase]:
    """Durations; `english` and `german` hold {n} for the number and {u} for the unit."""
    return [
        _phrase(
            english.format(n=f"{english_number(n)}:n", u=f"{unit}:u"),
            german.format(n=f"{german_number(n)}:n", u=f"{einheit}:u"),
        )
        for n in range(2, 13)
        for unit, einheit in UNITS
    ]


def _phrases(*pairs: str) -> list[Phrase]:
    return [_phrase(*pair.split("/")) for pair in pairs]


# Each group is drawn with equal weight within a tense, so that the many dates do not crowd out "today".
GROUPS: tuple[tuple[tuple[Phrase, ...], tuple[Tense, ...]], ...] = tuple(
    (tuple(phrases), tenses)
    for phrases, tenses in (
        (_phrases("today/heute"), _ANY),
        (_phrases("now/jetzt"), (Tense.PRESENT, Tense.MUST, Tense.WANT, Tense.CAN)),
        (_phrases("yesterday/gestern"), _GONE),
        (_phrases("tomorrow/morgen"), (*_COMING, Tense.INFINITIVE)),
        (_phrases("next week/nächste Woche", "next year/nächstes Jahr"), _COMING),
        (_phrases("last week/letzte Woche", "last year/letztes Jahr"), _GONE),
        (_phrases("every day/jeden Tag", "every week/jede Woche"), (*_PRESENT, Tense.LIKE)),
        (
            [_phrase(f"in:i the:i {part}:2", f"am:i {teil}:2") for part, teil in PARTS_OF_DAY]
            + _phrases("in:i summer/im:i Sommer", "in:i winter/im:i Winter"),
            _HABIT,
        ),
        (_days(), _ANY),
        (_clock_times(), _ANY),
        (_dates(), (*_COMING, *_GONE)),
        ([_phrase(f"in:i {year}:y", f"im:i Jahr:i {year}:y") for year in range(2005, 2021)], _GONE),
        (_spans("{n} {u} ago:a", "vor:a {n} {u}"), _GONE),
        (_spans("in {n} {u}", "in {n} {u}"), (Tense.FUTURE,)),
    )
)


def groups_for(tense: Tense) -> tuple[tuple[Phrase, ...], ...]:
    """The groups of times that can stand in a clause of this tense."""
    return tuple(phrases for phrases, tenses in GROUPS if tense in tenses)


EUROS = _phrase("euros", "Euro")
YEARS_OLD = _phrase("years old", "Jahre alt")
