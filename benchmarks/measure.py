"""What the measurements share: contestants in turn, medians, a table, a JSON file."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from dragoman.provenance import provenance
from dragoman.training.allocator import keep_big_blocks

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Contestant:
    """One way to do the work.

    Attributes:
        name: in the table.
        work: does all of it once.
        amount: how much that is, in the table's unit.
    """

    name: str
    work: Callable[[], object]
    amount: float


@dataclass(frozen=True)
class Measured:
    """A contestant's rounds.

    Attributes:
        seconds: of each round.
        per_second: amount a second, of the median round.
        spread: slowest round less fastest, as a share of the median.
        ratio: how many times as fast as the baseline; median of the rounds' ratios, each of one moment.
    """

    name: str
    seconds: tuple[float, ...]
    per_second: float
    spread: float
    ratio: float


def prepare_process(threads: int) -> None:
    """The same favors for all: threads, and a malloc that keeps big blocks."""
    torch.set_num_threads(threads)
    keep_big_blocks()


def interleaved(contestants: Sequence[Contestant], *, rounds: int, baseline: str) -> list[Measured]:
    """Measures all in turn, `rounds` times, after one round that does not count.

    A busy neighbor then slows all of them, and ratios within a round hold.
    """
    seconds: dict[str, list[float]] = {contestant.name: [] for contestant in contestants}
    for number in range(rounds + 1):
        for contestant in contestants:
            began = time.perf_counter()
            contestant.work()
            if number:
                seconds[contestant.name].append(time.perf_counter() - began)
    amounts = {contestant.name: contestant.amount for contestant in contestants}
    base = [amounts[baseline] / s for s in seconds[baseline]]
    return [_measured(name, found, amounts[name], base) for name, found in seconds.items()]


def _measured(name: str, seconds: list[float], amount: float, base: list[float]) -> Measured:
    middle = statistics.median(seconds)
    ratios = [amount / s / b for s, b in zip(seconds, base, strict=True)]
    spread = (max(seconds) - min(seconds)) / middle
    return Measured(name, tuple(seconds), amount / middle, spread, statistics.median(ratios))


def print_table(title: str, unit: str, rows: Sequence[Measured]) -> None:
    """The results for people."""
    width = max(len(row.name) for row in rows)
    print(f"\n{title}")
    print(f"  {'':{width}}  {unit + '/s':>14}  {'ratio':>7}  spread")
    for row in rows:
        print(f"  {row.name:{width}}  {row.per_second:14,.1f}  {row.ratio:6.2f}x  {row.spread:6.0%}")


def write_results(name: str, settings: dict[str, object], tables: Mapping[str, Sequence[Measured]]) -> Path:
    """The results for programs: `results/NAME.json`."""
    RESULTS.mkdir(exist_ok=True)
    record = {
        "settings": settings,
        "threads": torch.get_num_threads(),
        "load": os.getloadavg(),  # of the machine at the end: over the threads used, others were at work
        "provenance": provenance(),
        "tables": {title: [asdict(row) for row in rows] for title, rows in tables.items()},
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"\nwrote {os.path.relpath(path)}")
    if os.getloadavg()[0] > 1.5 * torch.get_num_threads():
        print("others were at work on this machine: trust the ratios, not the figures")
    return path


def threads_of(asked: int | None) -> int:
    """As many as asked for, else two at most: a laptop's share."""
    return asked or min(2, os.cpu_count() or 1)
