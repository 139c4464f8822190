"""The event that pulls wait on: results were committed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class CommitEvent:
    """Any thread may announce a commit; each waiter's future is set on its own event loop."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self._lock = threading.Lock()

    def announce(self) -> None:
        """Results are durable. A pull that misses the event finds them when it reads."""
        with self._lock:
            waiting = list(self._waiting)
        for future in waiting:
            with suppress(RuntimeError):  # Its loop has ended.
                future.get_loop().call_soon_threadsafe(_end_waiting, future)

    @contextmanager
    def next(self) -> Iterator[asyncio.Future[None]]:
        """A future that is done at the first commit from now on. It is removed when the block ends."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.add(future)
        try:
            yield future
        finally:
            with self._lock:
                self._waiting.discard(future)
            future.cancel()


def _end_waiting(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
