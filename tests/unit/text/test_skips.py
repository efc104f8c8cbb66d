"""Skip reports: counts, the first numbers, plain lines and JSON."""

from __future__ import annotations

import json

from dragoman.text.skips import NUMBERS_KEPT, SkipLog, SkipReport


def test_empty_report() -> None:
    report = SkipLog().report()
    assert report == SkipReport()
    assert (report.total, report.lines(), report.to_json()) == (0, [], [])


def test_counts_and_numbers_by_place_and_reason() -> None:
    log = SkipLog()
    for number in (2, 5):
        log.add("blank", number, where="a.en")
    log.add("blank", 7, where="b.de")
    log.add("too long", 9)
    report = log.report()
    assert report.total == 4
    assert report.lines() == [
        "a.en: 2 left out, blank: 2, 5",
        "b.de: 1 left out, blank: 7",
        "1 left out, too long: 9",
    ]
    assert log.counts == {("a.en", "blank"): 2, ("b.de", "blank"): 1, ("", "too long"): 1}


def test_only_the_first_numbers_are_kept() -> None:
    log = SkipLog()
    for number in range(1, 1001):
        log.add("blank", number)
    (entry,) = log.report().entries
    assert entry.count == 1000
    assert entry.numbers == tuple(range(1, NUMBERS_KEPT + 1))
    assert str(entry).endswith(", ...")


def test_a_report_does_not_change_with_its_log() -> None:
    log = SkipLog()
    log.add("blank", 1)
    report = log.report()
    log.add("blank", 2)
    assert report.total == 1


def test_json() -> None:
    log = SkipLog()
    log.add("blank", 3, where="x")
    assert json.loads(json.dumps(log.report().to_json())) == [
        {"where": "x", "reason": "blank", "count": 1, "numbers": [3]}
    ]
