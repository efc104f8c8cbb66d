"""Prefetching: order, bound, errors and the end of the thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count, islice

import pytest

from dragoman.data.prefetch import prefetched


def threads() -> int:
    return sum(thread.name == "dragoman-prefetch" for thread in threading.enumerate())


def test_the_same_items_in_the_same_order() -> None:
    assert list(prefetched(iter(range(1_000)), 3)) == list(range(1_000))
    assert threads() == 0


def test_nothing_starts_before_the_first_item_is_asked_for() -> None:
    items = prefetched(count(), 2)
    assert threads() == 0
    next(items)
    assert threads() == 1
    items.close()  # type: ignore[attr-defined]
    assert threads() == 0


def test_no_more_are_made_ahead_than_asked() -> None:
    made: list[int] = []

    def making() -> Iterator[int]:
        for number in count():
            made.append(number)
            yield number

    items = prefetched(making(), 2)
    next(items)
    time.sleep(0.2)
    assert len(made) == 4  # one used, two waiting, one in hand
    items.close()  # type: ignore[attr-defined]


def test_an_error_comes_after_the_items_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("the third")

    items = prefetched(failing(), 4)
    assert list(islice(items, 2)) == [1, 2]
    with pytest.raises(ValueError, match="the third"):
        next(items)
    assert threads() == 0


def test_an_error_of_the_user_ends_the_thread() -> None:
    def use() -> None:
        for item in prefetched(count(), 2):
            if item == 5:
                raise KeyError(item)

    with pytest.raises(KeyError):
        use()
    assert threads() == 0


def test_a_forgotten_iterator_ends_its_thread() -> None:
    items = prefetched(count(), 2)
    next(items)
    del items
    assert threads() == 0
