"""How many distinct pairs the grammar can promise.

Paper: none (infrastructure)

Counted exactly for one construction only: plain main clauses in the present, of a person, a transitive verb
and an object, both singular with an article or possessive, with or without an adjective. All other
sentences come on top, so that a stream is far from exhausted when the promised number is reached.
"""

from __future__ import annotations

from functools import cache

from dragoman.text.grammar.held_out import SPLITS, Split, split_of_combination
from dragoman.text.grammar.nouns import nouns_of
from dragoman.text.grammar.phrases import POSSESSIVES, adjectives_for
from dragoman.text.grammar.syntax import Frame, Noun, Verb
from dragoman.text.grammar.verbs import verbs_of

_DETERMINERS = len(("the", "a", "this", *POSSESSIVES))
# What can be made of train's combinations only, of train's and dev's, and of all of them.
Counts = tuple[int, int, int]


@cache
def capacity(split: Split) -> int:
    """How many pairs of a split can be asked for."""
    totals = [0, 0, 0]
    for verb in verbs_of(Frame.ACCUSATIVE):
        for k, count in enumerate(_clauses(verb)):
            totals[k] += count
    train, without_test, everything = totals
    return {"train": train, "dev": without_test - train, "test": everything - without_test}[split]


def _clauses(verb: Verb) -> Counts:
    """Clauses of a verb. Nouns that are masses, and the same noun twice, are left out."""
    subjects, objects = (
        tuple(noun for noun in nouns_of(kinds) if not noun.mass) for kinds in (("person",), verb.objects)
    )
    pairs = [_both(_phrases(verb, s), _phrases(verb, o)) for s in subjects for o in objects if s is not o]
    train, without_test, everything = (
        (sum(column) for column in zip(*pairs, strict=True)) if pairs else (0, 0, 0)
    )
    return train, without_test, everything


def _both(first: Counts, second: Counts) -> Counts:
    return first[0] * second[0], first[1] * second[1], first[2] * second[2]


@cache
def _phrases(verb: Verb, noun: Noun) -> Counts:
    """Noun phrases of a noun under a verb: bare of adjectives, or with one."""
    governed = _allowed(split_of_combination(verb.lemma, noun.lemma))
    described = [
        _allowed(split_of_combination(adjective.english, noun.lemma))
        for adjective in adjectives_for(noun.kind)
    ]
    counts = (
        [_DETERMINERS * (1 + sum(column)) for column in zip(*described, strict=True)]
        if described
        else [_DETERMINERS] * 3
    )
    return _both(governed, (counts[0], counts[1], counts[2]))


def _allowed(split: Split) -> Counts:
    rank = SPLITS.index(split)
    return int(rank <= 0), int(rank <= 1), 1
