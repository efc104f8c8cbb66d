"""The language model of counts that neural ones replaced: n-grams, smoothed by interpolated modified Kneser-Ney.

Earlier: Chen & Goodman 1999, "An Empirical Study of Smoothing Techniques for Language Modeling" (3)
Silent: the end of the recursion (a uniform distribution over the vocabulary); discounts that a corpus is too small for
(0.5, 1, 1.5); n-grams that begin with the begin of a unit, which nothing precedes (their own counts at every order).

    p(w | h) = max(c(h w) - D(c(h w)), 0) / c(h) + gamma(h) p(w | h'),  h' = h without its first token

c counts occurrences at the highest order, and below it how many different tokens stand before; D is D_1, D_2 or D_3 for
counts of one, two, and three or more; gamma gives what discounts took to the shorter history.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64

from dragoman.errors import ConfigError
from dragoman.text.subwords import Subwords

Tokens = tuple[int, ...]
SMALL = (0.5, 1.0, 1.5)  # discounts where counts of counts allow none


@dataclass(frozen=True)
class _History:
    """What may follow a history.

    Attributes:
        discounted: (c - D) / c(h) of each token that was seen there.
        back_off: gamma.
    """

    discounted: dict[int, float]
    back_off: float


class NGrams:
    """A model of units of tokens; each unit ends in EOS and is preceded by BOS.

    Args:
        units: token ids of each, EOS at the end, no BOS.
        order: n.
        vocab_size: ids are below it; the probabilities of all of them sum to 1 after any history.

    Raises:
        ConfigError: the order is not positive, or there are no units.
    """

    def __init__(self, units: Iterable[Sequence[int]], *, order: int, vocab_size: int) -> None:
        if order < 1:
            raise ConfigError(f"n-grams of order {order}", cure="take 1 or more")
        self.order, self.vocab_size = order, vocab_size
        self._histories: dict[Tokens, _History] = {}
        for counts in _adjusted_counts(units, order):
            self._histories |= _smoothed(counts)
        if not self._histories:
            raise ConfigError("there are no units to count", cure="give text")

    def probability(self, before: Sequence[int], token: int) -> float:
        """p(token | before); `before` is all of the unit so far, BOS first, of which the last n - 1 count."""
        p = 1.0 / self.vocab_size
        for history in self._known(before):
            p = history.discounted.get(token, 0.0) + history.back_off * p
        return p

    def distribution(self, before: Sequence[int]) -> Float64[np.ndarray, " V"]:
        """p of every token."""
        p = np.full(self.vocab_size, 1.0 / self.vocab_size)
        for history in self._known(before):
            p *= history.back_off
            p[list(history.discounted)] += list(history.discounted.values())
        return p

    def _known(self, before: Sequence[int]) -> Iterable[_History]:
        """The histories that were seen, from the empty one on; where one was not, no longer one was."""
        longest = tuple(before[max(0, len(before) - self.order + 1) :])
        for length in range(len(longest) + 1):
            history = self._histories.get(longest[len(longest) - length :])
            if history is None:
                return
            yield history

    def log_probability(self, unit: Sequence[int]) -> float:
        """log P of a unit, EOS at its end, in nats."""
        tokens = (Subwords.BOS_ID, *unit)
        return sum(math.log(self.probability(tokens[:at], tokens[at])) for at in range(1, len(tokens)))

    def between(self, unit: Sequence[int], place: int) -> Float64[np.ndarray, " V"]:
        """p of every token at a place of a unit, all its other tokens being given: P of the unit with each, divided.

        Only the n conditional probabilities that depend on the token are computed, and of these only those apart whose
        histories were seen.
        """
        tokens, at = [Subwords.BOS_ID, *unit], place + 1
        log_p = np.log(self.distribution(tokens[:at]))
        for following in range(at + 1, min(at + self.order, len(tokens))):
            log_p += np.log(self._of_each(tokens, at, following))
        p = np.exp(log_p - log_p.max())
        whole: Float64[np.ndarray, " V"] = p / p.sum()
        return whole

    def _of_each(self, tokens: list[int], at: int, following: int) -> Float64[np.ndarray, " V"]:
        """p of the token at `following`, for every token that may stand at `at`."""
        between = tuple(tokens[at + 1 : following])
        unseen = self.probability(between, tokens[following])  # where the history goes back no further
        p = np.full(self.vocab_size, unseen)
        tried = list(tokens[:following])
        for token in self._before.get(between, ()):
            tried[at] = token
            p[token] = self.probability(tried, tokens[following])
        return p

    @cached_property
    def _before(self) -> dict[Tokens, list[int]]:
        """Of each history, the tokens before it in those longer by one."""
        found: dict[Tokens, list[int]] = defaultdict(list)
        for history in self._histories:
            if history:
                found[history[1:]].append(history[0])
        return found


def _adjusted_counts(units: Iterable[Sequence[int]], order: int) -> list[Counter[Tokens]]:
    """c of the n-grams of each order, from 1 on."""
    seen: list[Counter[Tokens]] = [Counter() for _ in range(order)]
    for unit in units:
        tokens = (Subwords.BOS_ID, *unit)
        for end in range(2, len(tokens) + 1):
            for length in range(1, min(order, end) + 1):
                seen[length - 1][tokens[end - length : end]] += 1
    adjusted = []
    for length, grams in enumerate(seen, start=1):
        if length == order:
            adjusted.append(grams)
            continue
        counts = Counter({gram: count for gram, count in grams.items() if gram[0] == Subwords.BOS_ID})
        counts.update(Counter(longer[1:] for longer in seen[length]))
        adjusted.append(counts)
    return adjusted


def _smoothed(counts: Counter[Tokens]) -> dict[Tokens, _History]:
    """The histories of one length."""
    discounts = _discounts(counts)
    following: dict[Tokens, dict[int, int]] = defaultdict(dict)
    for gram, count in counts.items():
        following[gram[:-1]][gram[-1]] = count
    histories = {}
    for history, tokens in following.items():
        total = sum(tokens.values())
        taken = {token: discounts[min(count, 3) - 1] for token, count in tokens.items()}
        histories[history] = _History(
            {token: (count - taken[token]) / total for token, count in tokens.items()},
            sum(taken.values()) / total,
        )
    return histories


def _discounts(counts: Counter[Tokens]) -> tuple[float, ...]:
    """D_1, D_2, D_3 of one order, from how many n-grams there are of counts one to four."""
    n = Counter(count for count in counts.values() if count <= 4)
    if not (n[1] and n[2]):
        return SMALL
    Y = n[1] / (n[1] + 2 * n[2])
    found = [k - (k + 1) * Y * n[k + 1] / n[k] if n[k] else SMALL[k - 1] for k in (1, 2, 3)]
    return tuple(D if 0.0 <= D <= k else SMALL[k - 1] for k, D in enumerate(found, start=1))
