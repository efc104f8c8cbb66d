"""Toy language models for the tests of search, and the truth about them: by enumeration, and by the book.

A toy is a table: for each prefix of token ids (BOS left out) a row of logits. Nothing here is fast or clever.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

from dragoman.search.length import Penalty, length_penalty
from dragoman.search.rescore import token_log_probabilities
from dragoman.variants.power_penalty import power_penalty

BOS = 10_000_019  # beyond any toy's vocabulary: a toy looks at nothing but the prefix after it
EOS = 0
NO_CHANCE = float("-inf")

Prefix = tuple[int, ...]
Table = Callable[[Prefix], list[float]]


@dataclass
class TableStep:
    """The step function of one table a sentence; it keeps the prefixes themselves and counts its calls."""

    tables: list[Table]
    dtype: torch.dtype = torch.float32
    prefixes: list[list[Prefix]] = field(default_factory=list)
    shapes: list[tuple[int, int]] = field(default_factory=list)
    after_eos: int = 0

    def __post_init__(self) -> None:
        self.prefixes = [[()] for _ in self.tables]

    def __call__(self, tokens_BK: Tensor) -> Tensor:
        assert tokens_BK.shape == (len(self.prefixes), len(self.prefixes[0]))
        self.shapes.append((tokens_BK.shape[0], tokens_BK.shape[1]))
        self.after_eos += sum(EOS in prefix for row in self.prefixes for prefix in row)
        if len(self.shapes) == 1:
            assert bool((tokens_BK == BOS).all())
        else:
            self.prefixes = [
                [(*prefix, token) for prefix, token in zip(row, tokens, strict=True)]
                for row, tokens in zip(self.prefixes, tokens_BK.tolist(), strict=True)
            ]
        rows = [
            [table(prefix) for prefix in row] for table, row in zip(self.tables, self.prefixes, strict=True)
        ]
        return torch.tensor(rows, dtype=self.dtype)

    def reorder(self, sentences_B: Tensor, parents_BK: Tensor) -> None:
        sentences = sentences_B.tolist()
        assert sentences == sorted(set(sentences))
        assert parents_BK.shape[0] == len(sentences)
        self.tables = [self.tables[k] for k in sentences]
        self.prefixes = [
            [self.prefixes[k][parent] for parent in parents]
            for k, parents in zip(sentences, parents_BK.tolist(), strict=True)
        ]


def random_table(seed: int, vocab_size: int, *, levels: int = 0, spread: float = 2.0) -> Table:
    """Logits drawn for each prefix; with `levels`, from so few values that equals are everywhere."""
    cache: dict[Prefix, list[float]] = {}

    def table(prefix: Prefix) -> list[float]:
        if prefix not in cache:
            generator = np.random.default_rng([seed, *prefix])
            if levels:
                cache[prefix] = generator.integers(0, levels, vocab_size).astype(float).tolist()
            else:
                cache[prefix] = generator.normal(0.0, spread, vocab_size).astype(np.float32).tolist()
        return cache[prefix]

    return table


def listed_table(rows: dict[Prefix, list[float]], default: list[float]) -> Table:
    """Logits from listed probabilities; `default` for other prefixes."""

    def table(prefix: Prefix) -> list[float]:
        return [math.log(p) if p > 0 else NO_CHANCE for p in rows.get(prefix, default)]

    return table


# Greedy goes wrong at once (1); which output is best depends on the penalty.
SMALL = listed_table(
    {
        (): [0.14, 0.5, 0.35, 0.01],
        (1,): [0.2, 0.4, 0.2, 0.2],
        (2,): [0.1, 0.02, 0.03, 0.85],
        (2, 3): [0.15, 0.05, 0.75, 0.05],
        (2, 3, 2): [0.9, 0.05, 0.03, 0.02],
    },
    [0.4, 0.3, 0.2, 0.1],
)


def cases_folder() -> Path | None:
    """The folder of published cases, if there is one: DRAGOMAN_CASES, or beside the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "cases"
    folder = Path(os.environ.get("DRAGOMAN_CASES", beside))
    return folder if folder.is_dir() else None


def case_table(folder: Path) -> Table:
    """The table of a case's toy_lm.json."""
    toy = json.loads((folder / "toy_lm.json").read_text(encoding="utf-8"))
    rows = {tuple(int(token) for token in prefix.split()): row for prefix, row in toy["table"].items()}
    return listed_table(rows, toy["default"])


@dataclass(frozen=True)
class Truth:
    """A sequence that a table allows."""

    tokens: Prefix
    log_probability: float
    score: float
    finished: bool


def book_penalty(length: int, alpha: float) -> float:
    """lp(n), written apart."""
    return float(math.pow(5.0 + length, alpha) / math.pow(6.0, alpha))


def book_power(length: int, alpha: float) -> float:
    """n^alpha, written apart."""
    return math.exp(alpha * math.log(length))


# The penalties a search may be given, and the same written apart.
PENALTIES: dict[Penalty, Penalty] = {length_penalty: book_penalty, power_penalty: book_power}


def next_log_probabilities(table: Table, prefix: Prefix, dtype: torch.dtype = torch.float32) -> list[float]:
    """log P of each next token."""
    logits = torch.tensor(table(prefix), dtype=dtype)
    rows = logits.expand(1, len(logits), -1)
    values: list[float] = token_log_probabilities(rows, torch.arange(len(logits)).unsqueeze(0))[0].tolist()
    return values


def enumerated(
    table: Table,
    *,
    limit: int,
    alpha: float,
    min_length: int = 1,
    bans: Sequence[int] = (),
    penalty: Penalty = length_penalty,
) -> list[Truth]:
    """All sequences: finished ones by falling score, then those the limit cuts, by falling score."""
    found: list[Truth] = []
    live: list[tuple[Prefix, float]] = [((), 0.0)]
    for length in range(1, limit + 1):
        lp, longer = PENALTIES[penalty](length, alpha), []
        for prefix, value in live:
            for token, more in enumerate(next_log_probabilities(table, prefix)):
                if token in bans or more == NO_CHANCE or (token == EOS and length < min_length):
                    continue
                tokens, total = (*prefix, token), value + more
                if token == EOS or length == limit:
                    found.append(Truth(tokens, total, total / lp, token == EOS))
                else:
                    longer.append((tokens, total))
        live = longer
    return sorted(found, key=lambda truth: (not truth.finished, -truth.score))


def by_the_book(
    table: Table,
    *,
    limit: int,
    beam: int,
    n_best: int,
    alpha: float,
    min_length: int,
    bans: Sequence[int],
    penalty: Penalty = length_penalty,
    dtype: torch.dtype = torch.float32,
) -> tuple[list[Truth], int]:
    """The specification's beam search on lists, with its order of equals; and the steps it needs.

    Sums that are equal but for rounding come in the search's order where both have the logits in float64.
    """
    live: list[tuple[Prefix, float]] = [((), 0.0)]
    pool: list[Truth] = []
    for length in range(1, limit + 1):
        options = [
            (-(value + more), parent, token)
            for parent, (prefix, value) in enumerate(live)
            for token, more in enumerate(next_log_probabilities(table, prefix, dtype))
            if token not in bans and more > NO_CHANCE and not (token == EOS and length < min_length)
        ]
        best = sorted(options)[: 2 * beam]
        lp = penalty(length, alpha)
        pool += [
            Truth((*live[parent][0], token), -loss, -loss / lp, finished=True)
            for loss, parent, token in best
            if token == EOS
        ]
        pool = sorted(pool, key=lambda truth: -truth.score)[:beam]
        live = [((*live[parent][0], token), -loss) for loss, parent, token in best if token != EOS][:beam]
        longest = limit if alpha >= 0 else length + 1
        bounds = [value / penalty(longest, alpha) for _, value in live]
        if not live or (len(pool) >= n_best and pool[n_best - 1].score >= max(bounds)) or length == limit:
            cut = [Truth(tokens, value, value / lp, finished=False) for tokens, value in live]
            return (pool + cut)[:n_best], length
    raise AssertionError("the limit is at least 1")


@dataclass(frozen=True)
class Drawn:
    """A random search problem."""

    table: Table
    vocab_size: int
    limit: int
    alpha: float
    min_length: int
    bans: tuple[int, ...]
    penalty: Penalty = length_penalty


@st.composite
def problems(draw: st.DrawFn, *, most_tokens: int = 4, longest: int = 5, with_ties: bool = False) -> Drawn:
    """Random tables with random alpha in -1..2, limits, minimum lengths, bans (EOS and one more stay) and penalties."""
    vocab_size = draw(st.integers(2, most_tokens))
    limit = draw(st.integers(1, longest))
    bans = draw(st.lists(st.integers(1, vocab_size - 1), unique=True, max_size=vocab_size - 2))
    levels = draw(st.sampled_from([0, 2, 3])) if with_ties else 0
    return Drawn(
        table=random_table(draw(st.integers(0, 2**20)), vocab_size, levels=levels),
        vocab_size=vocab_size,
        limit=limit,
        alpha=draw(st.sampled_from([-1.0, -0.5, 0.0, 0.3, 0.6, 1.0, 2.0]) | st.floats(-1.0, 2.0)),
        min_length=draw(st.integers(1, limit)),
        bans=tuple(bans),
        penalty=draw(st.sampled_from(list(PENALTIES))),
    )


def every_sequence(vocab_size: int, longest: int) -> list[Prefix]:
    """All sequences of tokens up to a length, for tests that visit them."""
    return [
        tokens
        for length in range(longest + 1)
        for tokens in itertools.product(range(vocab_size), repeat=length)
    ]
