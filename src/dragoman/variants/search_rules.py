"""Departures of search, and what they put in place of the paper's rules.

Paper: none (departures)

The search takes what is here as plain functions and knows nothing of departures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Annotated, ClassVar, Literal, assert_never, get_args

from pydantic import Field

from dragoman.variants.departures import Choice, DecoderOnly, EncoderOnly, Level, listed, refuse
from dragoman.variants.length_limit import longest_output
from dragoman.variants.power_penalty import power_penalty

Penalty = Callable[[int, float], float]
Limit = Callable[[int], int]


class _OfSearch(Choice):
    """What departures of search have."""

    level: ClassVar[Level] = "search"
    section: ClassVar[str] = "6.1"


class PowerPenalty(_OfSearch):
    """log P is divided by n^alpha."""

    name: Literal["power_penalty"] = "power_penalty"
    decides: ClassVar[str] = "by what log P is divided"
    instead_of: ClassVar[str] = "((5 + n) / 6)^alpha"
    source: ClassVar[str] = "Ott et al. 2019"


class LengthLimit(_OfSearch):
    """An output has at most so many times its source's tokens and some more, whatever `search.max_extra` says.

    Attributes:
        times: 0 is a limit that is the same for all.
        plus: tokens more.
    """

    name: Literal["length_limit"] = "length_limit"
    times: Annotated[float, Field(ge=0.0, le=1_000.0)] = 0.0
    plus: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    decides: ClassVar[str] = "how long an output may be"
    instead_of: ClassVar[str] = "the source's length and a number"
    source: ClassVar[str] = "Ott et al. 2019"


SearchDeparture = PowerPenalty | LengthLimit
SEARCH_KINDS: dict[str, type[SearchDeparture]] = {
    kind.model_fields["name"].default: kind for kind in get_args(SearchDeparture)
}


@dataclass(frozen=True)
class SearchRules:
    """What a search does otherwise than published.

    Attributes:
        penalty: lp(n) of n and alpha; None: the paper's.
        limit: most tokens of an output, of its source's; None: the paper's.
    """

    penalty: Penalty | None = None
    limit: Limit | None = None


def search_departures_of(value: object) -> tuple[SearchDeparture, ...]:
    """Departures of search as a recipe may write them, as values; see `departures.listed`."""
    return listed(value, SEARCH_KINDS, "search")


def check_search_departures(
    departures: Sequence[SearchDeparture], stack: DecoderOnly | EncoderOnly | None = None
) -> None:
    """Refuses what makes no sense together.

    Args:
        departures: in any order.
        stack: the one that the model has, where it has not both.

    Raises:
        ConfigError: names the departures and the reason.
    """
    refuse(departures, (_fault(departure, stack) for departure in departures))


def _fault(departure: SearchDeparture, stack: DecoderOnly | EncoderOnly | None) -> str | None:
    """Why it cannot be had with a model of one text."""
    if isinstance(stack, EncoderOnly):
        return "with encoder_only nothing is searched for"
    if isinstance(stack, DecoderOnly) and isinstance(departure, LengthLimit):
        return "with decoder_only there is no source whose length could count"
    return None


def search_rules(departures: Sequence[SearchDeparture]) -> SearchRules:
    """What these departures put in place of the paper's rules."""
    return reduce(_with, departures, SearchRules())


def _with(rules: SearchRules, departure: SearchDeparture) -> SearchRules:
    match departure:
        case PowerPenalty():
            return replace(rules, penalty=power_penalty)
        case LengthLimit(times=times, plus=plus):
            return replace(rules, limit=partial(longest_output, times=times, plus=plus))
        case _:
            assert_never(departure)
