"""A word-for-word dictionary of the embedded grammar, and the baseline that translates with it.

Paper: none (infrastructure)

It shows what the grammar asks of a translator: with each word's most natural translation and nothing else,
hardly a sentence comes out right.
"""

from __future__ import annotations

from functools import cache

from dragoman.text.grammar.generate import text_of, words_of
from dragoman.text.grammar.modifiers import ADJECTIVES, CITIES, FREQUENCIES, NAMES
from dragoman.text.grammar.nouns import NOUNS
from dragoman.text.grammar.times import DAYS, MONTHS, PARTS_OF_DAY, UNITS, english_number, german_number
from dragoman.text.grammar.verbs import VERBS

# Function words, and the words that occur only within longer expressions.
_CLOSED = """
i/ich he/er she/sie it/es we/wir they/sie me/mich him/ihn us/uns them/sie her/ihr his/sein my/mein our/unser
their/ihr the/der a/ein an/ein this/dieser these/diese every/jeder all/alle many/viele some/einige no/kein
not/nicht who/wer whom/wen what/was where/wo when/wann why/warum how/wie much/viel that/dass whether/ob
because/weil if/wenn although/obwohl before/bevor while/während but/aber and/und there/da am/bin is/ist
are/sind was/war were/waren be/sein do/tut does/tut did/tat has/hat have/haben will/wird can/kann
cannot/nicht must/muss should/sollte may/darf want/wollen wants/will like/mögen likes/mag to/zu in/in at/an
into/in on/auf under/unter behind/hinter next/nächste front/vor of/von with/mit without/ohne for/für
about/über during/während despite/trotz than/als very/sehr too/zu back/zurück up/auf along/mit away/weg
forward/vorwärts part/Teil today/heute now/jetzt yesterday/gestern tomorrow/morgen week/Woche year/Jahr
last/letzte day/Tag summer/Sommer winter/Winter o'clock/Uhr half/halb past/nach quarter/Viertel ago/vor
euros/Euro home/Hause police/Polizei officer/Beamter officers/Beamte driver/Fahrer drivers/Fahrer juice/Saft
orange/Orange plum/Pflaume love/lieben
"""


@cache
def word_for_word_dictionary() -> dict[str, str]:
    """Each lower-cased English word of the grammar with its most natural German word.

    Of several translations the first in this order is taken: function words, adjectives and adverbs, numbers
    and times, nouns, verbs. Figures and names are the same in German, and not listed.
    """
    entries: dict[str, str] = {}
    for english, german in (*_closed(), *_modifiers(), *_times(), *_nouns(), *_verbs()):
        entries.setdefault(english.lower(), german)
    return entries


def translate_word_for_word(sentence: str) -> str:
    """Replace each word by the dictionary's, in place; words it lacks stay as they are."""
    dictionary = word_for_word_dictionary()
    return text_of(dictionary.get(word.lower(), word) for word in words_of(sentence))


def _closed() -> list[tuple[str, str]]:
    pairs = (item.split("/") for item in _CLOSED.split())
    return [(english, german) for english, german in pairs]


def _modifiers() -> list[tuple[str, str]]:
    pairs = [(adjective.english, adjective.german) for adjective in ADJECTIVES]
    pairs += [(adjective.english_comparative, adjective.german_comparative) for adjective in ADJECTIVES]
    pairs += [(adverb.english[0].text, adverb.german[0].text) for adverb in FREQUENCIES]
    return [pair for pair in pairs if pair[0]]


def _times() -> list[tuple[str, str]]:
    numbers = [(english_number(number), german_number(number)) for number in range(1, 100)]
    return [*numbers, *DAYS, *MONTHS, *PARTS_OF_DAY, *UNITS]


def _nouns() -> list[tuple[str, str]]:
    """Nouns of one word in the nominative, owners in the genitive, names and cities."""
    single = [noun for noun in NOUNS if len(noun.english) == 1]
    pairs = [(noun.english[0], noun.german) for noun in single]
    pairs += [(noun.english_plural[0], noun.german_plural) for noun in single if not noun.mass]
    pairs += [(noun.english[-1] + "'s", noun.genitive) for noun in NOUNS]
    pairs += [(name + "'s", name + "s") for name in NAMES]
    return pairs + [(city.english, city.german) for city in CITIES]


def _verbs() -> list[tuple[str, str]]:
    pairs = []
    for verb in VERBS:
        english, german = verb.english, verb.german
        pairs += [(english.third, german.er), (english.past, german.preterite or german.participle)]
        pairs += [(english.participle, german.participle), (english.base, german.infinitive)]
    return [pair for pair in pairs if pair[0]]
