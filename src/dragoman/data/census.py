"""The first pass over a parallel corpus: what each pair is good for, nine bytes a pair.

Paper: 5.1
Silent: how a dev set is chosen when none is given; ours: by seed, among the pairs that can be used, and pairs
of the same text are left out of training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from dragoman.data.entities import Entities, as_chosen, has_entity
from dragoman.errors import ConfigError, DataError
from dragoman.text.corpus import BAD_BYTES, Pair, PairBadBytes, ParallelText, pair_key, split_dev
from dragoman.text.normalize import SPACE_MARK, is_blank
from dragoman.text.skips import Skipped, SkipReport

Tick = Callable[[int], None]

NUMBERS_NAMED = 1000
_TICK_PAIRS = 1000
_BLOCK_PAIRS = 1_000_000  # compared at a time, for the sake of memory


class Role(IntEnum):
    """What becomes of a pair."""

    NOT_UTF8 = 0
    BLANK = 1
    TOO_LONG = 2
    SAME_AS_DEV = 3
    TRAIN = 4
    DEV = 5


REASONS = {
    Role.NOT_UTF8: BAD_BYTES,
    Role.BLANK: "a side is blank",
    Role.TOO_LONG: "a side has too many tokens",
    Role.SAME_AS_DEV: "the same text is in the dev set",
}


ONE_TEXT_REASONS = {**REASONS, Role.BLANK: "blank", Role.TOO_LONG: "too many tokens"}


@dataclass(frozen=True, eq=False)
class Census:
    """What the first pass found.

    `roles` is filled in further as more becomes known; `keys` are equal for pairs of equal text;
    `entity_units` counts the units, of both sides, that hold an entity.
    """

    text: ParallelText
    bad_bytes: PairBadBytes
    roles: npt.NDArray[np.uint8]
    keys: npt.NDArray[np.uint64]
    entity_units: int

    def __len__(self) -> int:
        """Pairs in the text, the unusable ones too."""
        return len(self.roles)

    def count(self, role: Role) -> int:
        """Pairs of a role."""
        return int(np.count_nonzero(self.roles == role))

    def numbers(self, role: Role) -> npt.NDArray[np.int64]:
        """The line numbers, from 1, of the pairs of a role, rising."""
        return np.flatnonzero(self.roles == role) + 1

    def pairs(self, *roles: Role) -> Iterator[Pair]:
        """Read the text again and give the pairs that have one of these roles now."""
        wanted = np.isin(self.roles, roles).tobytes()  # numbers of bytes are faster to look up than of arrays
        return (pair for pair in _all_pairs(self.text, self.bad_bytes, len(self)) if wanted[pair.index])

    @property
    def reasons(self) -> Mapping[Role, str]:
        """Why pairs, or lines of one text, are left out."""
        return ONE_TEXT_REASONS if self.text.one_text else REASONS

    def left_out(self, where: str) -> SkipReport:
        """What is left out of the text, with at most `NUMBERS_NAMED` numbers a reason."""
        found = [
            Skipped(where, reason, self.count(role), tuple(self.numbers(role)[:NUMBERS_NAMED].tolist()))
            for role, reason in self.reasons.items()
        ]
        return SkipReport(tuple(entry for entry in found if entry.count))

    def left_out_rows(self) -> Iterator[tuple[int, str]]:
        """(line number from 1, reason) of every pair left out, in order."""
        for index in np.flatnonzero(self.roles < Role.TRAIN):
            yield int(index) + 1, self.reasons[Role(int(self.roles[index]))]


def take_census(
    text: ParallelText, *, role: Role, bad_bytes: PairBadBytes, entities: Entities, tick: Tick
) -> Census:
    """Read a text once: its usable pairs get `role`, the others what hinders them.

    Raises:
        DataError: the sides differ in their number of lines; bytes that are not UTF-8 when those are refused.
    """
    size = text.count()
    roles = np.full(size, Role.NOT_UTF8, np.uint8)
    keys = np.zeros(size, np.uint64)
    entity_units = 0
    for pair in _all_pairs(text, bad_bytes, size):
        blank = _is_blank(pair.source, entities) or _is_blank(pair.target, entities)
        roles[pair.index] = Role.BLANK if blank else role
        keys[pair.index] = int.from_bytes(pair_key(pair.source, pair.target)[:8], "little")
        entity_units += has_entity(pair.source) + (not text.one_text and has_entity(pair.target))
        if pair.index % _TICK_PAIRS == 0:
            tick(pair.index)
    census = Census(text, bad_bytes, roles, keys, entity_units)
    if bad_bytes != "skip" and census.count(Role.NOT_UTF8):
        raise changed(text)
    return census


def _is_blank(text: str, entities: Entities) -> bool:
    """Whether nothing but white space would be encoded: to subwords, U+2581 is a space."""
    return is_blank(as_chosen(text, entities).replace(SPACE_MARK, " "))


def split_off_dev(census: Census, *, seed: int, dev_size: int | None) -> None:
    """Turn some TRAIN pairs into DEV, and what has the same text as one of them into SAME_AS_DEV.

    Raises:
        ConfigError: no pair would be left on one of the sides.
    """
    usable = census.count(Role.TRAIN)
    if usable < 2:
        raise ConfigError(
            f"a dev set cannot be split off {usable} usable {census.text.called[:-1]}(s)",
            cure=f"give a dev set of its own, or more {census.text.called}",
        )
    chosen = split_dev(usable, seed=seed, dev_size=dev_size)
    census.roles[_places(census.roles, Role.TRAIN, chosen)] = Role.DEV
    census.roles[same_text(census, census.keys[census.roles == Role.DEV])] = Role.SAME_AS_DEV


def _places(roles: npt.NDArray[np.uint8], role: Role, ranks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where the pairs are that stand at these places (from 0, rising) among those of a role."""
    found, before = [np.zeros(0, np.int64)], 0
    for start in range(0, len(roles), _BLOCK_PAIRS):
        here = start + np.flatnonzero(roles[start : start + _BLOCK_PAIRS] == role)
        first, last = np.searchsorted(ranks, [before, before + len(here)])
        found.append(here[ranks[first:last] - before])
        before += len(here)
    return np.concatenate(found)


def same_text(census: Census, dev_keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """The indices of TRAIN pairs whose text is that of a dev pair."""
    known = np.sort(dev_keys)
    found = [np.zeros(0, np.int64)]
    for start in range(0, len(census) if len(known) else 0, _BLOCK_PAIRS):
        keys = census.keys[start : start + _BLOCK_PAIRS]
        places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        is_train = census.roles[start : start + _BLOCK_PAIRS] == Role.TRAIN
        found.append(start + np.flatnonzero((known[places] == keys) & is_train))
    return np.concatenate(found)


def _all_pairs(text: ParallelText, bad_bytes: PairBadBytes, size: int) -> Iterator[Pair]:
    """Every readable pair; a text that grew since it was counted is refused."""
    for pair in text.pairs(bad_bytes=bad_bytes):
        if pair.index >= size:
            raise changed(text)
        yield pair


def changed(text: ParallelText) -> DataError:
    """The error for a text that is not what it was when it was counted."""
    return DataError(
        "a file changed while it was read",
        where=text.where(text.count() - 1),
        cure="wait until it is written, then prepare again",
    )
