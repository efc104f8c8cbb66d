"""Making things ahead of their use in a thread: same things, same order, a bounded number of them.

Paper: none (infrastructure)
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")

# How long the thread waits on a full queue before it looks whether anyone still wants the items.
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class _Failure:
    error: BaseException


class _End:
    """Nothing more comes."""


class _Worker(threading.Thread, Generic[Item]):
    def __init__(self, items: Iterator[Item], depth: int) -> None:
        super().__init__(name="dragoman-prefetch", daemon=True)
        self.ready: queue.Queue[Item | _Failure | _End] = queue.Queue(depth)
        self.wanted = True
        self._items = items

    def run(self) -> None:
        try:
            for item in self._items:
                if not self._put(item):
                    return
            self._put(_End())
        except BaseException as error:  # handed over: raised where the items are used
            self._put(_Failure(error))

    def _put(self, item: Item | _Failure | _End) -> bool:
        while self.wanted:
            try:
                self.ready.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def stop(self) -> None:
        self.wanted = False
        if threading.current_thread() is not self:  # it is when the collector runs in the worker
            self.join()


def prefetched(items: Iterator[Item], depth: int) -> Iterator[Item]:
    """The same items in the same order, up to `depth` of them made ahead in one thread.

    The thread starts with the first item asked for and has ended when the generator is closed, collected or
    exhausted. An error in `items` is raised here, after the items made before it.

    Args:
        items: an iterator used by the thread alone from now on.
        depth: most items waiting; at least 1.
    """
    worker = _Worker(items, depth)
    worker.start()
    try:
        while True:
            item = worker.ready.get()
            if isinstance(item, _End):
                return
            if isinstance(item, _Failure):
                raise item.error
            yield item
    finally:
        worker.stop()
