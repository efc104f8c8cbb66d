"""Which combinations of words are held out, and so which split a sentence belongs to.

Paper: none (infrastructure)

A combination is a verb with a noun that is its subject, object or recipient, or an adjective with a noun
that it describes or is said of. Each combination belongs to one split by a hash of its words, whatever the
seed: 1 in 20 to test, 1 in 20 to dev, the rest to train. A sentence with a combination of test belongs to
test; else, with one of dev, to dev; else to train. So every sentence of test holds a combination that is in
no sentence of train or dev, and none is in two splits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Literal

from dragoman.text.grammar.syntax import (
    Clause,
    Existential,
    Gap,
    Name,
    Nominal,
    NounPhrase,
    Predicate,
    PrepositionalPhrase,
    Sentence,
)

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
_ONE_IN = 20


@cache
def split_of_combination(word: str, noun: str) -> Split:
    """The split that a verb or adjective together with a noun belongs to."""
    digest = hashlib.sha256(f"{word}\t{noun}".encode()).digest()
    part = int.from_bytes(digest[:4], "big") % _ONE_IN
    return "test" if part == 0 else "dev" if part == 1 else "train"


def split_of(tree: Sentence) -> Split:
    """The split a sentence belongs to."""
    found = {split_of_combination(word, noun) for word, noun in combinations(tree)}
    return "test" if "test" in found else "dev" if "dev" in found else "train"


def combinations(tree: Sentence) -> Iterator[tuple[str, str]]:
    """The combinations of a sentence: (verb or adjective, noun)."""
    if isinstance(tree.main, Existential):
        yield from _inside(tree.main.thing)
        yield from _inside(tree.main.place.nominal)
    else:
        yield from _of_clause(tree.main)
    if tree.second is not None:
        yield from _of_clause(tree.second)


def _of_clause(tree: Clause, head: NounPhrase | None = None) -> Iterator[tuple[str, str]]:
    """The combinations of a clause; `head` is the noun that a relative clause's gap stands for."""
    for argument in (tree.subject, tree.object, tree.recipient):
        if isinstance(argument, Gap):
            argument = head
        elif argument is not None:
            yield from _inside(argument)
        if isinstance(argument, NounPhrase):
            yield tree.verb.lemma, argument.noun.lemma
    if isinstance(tree.predicate, Predicate):
        if isinstance(tree.subject, NounPhrase):
            yield tree.predicate.adjective.english, tree.subject.noun.lemma
        if tree.predicate.than is not None:
            yield from _inside(tree.predicate.than)
    for attached in (tree.direction, tree.adjunct):
        if isinstance(attached, PrepositionalPhrase):
            yield from _inside(attached.nominal)


def _inside(tree: Nominal | object) -> Iterator[tuple[str, str]]:
    """The combinations within a noun phrase."""
    if not isinstance(tree, NounPhrase):
        return
    if tree.adjective is not None:
        yield tree.adjective.english, tree.noun.lemma
    if tree.owner is not None and not isinstance(tree.owner, Name):
        yield from _inside(tree.owner)
    if tree.relative is not None:
        yield from _of_clause(tree.relative, tree)
