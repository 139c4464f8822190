"""The rows of the newest commits, in memory and bounded, so that windows seldom read files."""

from __future__ import annotations

import threading
from collections import deque

import pyarrow as pa


class RecentRows:
    """Whole commits, newest last. `since` is the commit after which none is missing.

    >>> recent = RecentRows(max_bytes=1000, since=4)
    >>> recent.add(5, pa.table({"n": [1]}))
    >>> [rows.num_rows for rows in recent.window(4, 5)], recent.window(3, 5)
    ([1], None)
    """

    def __init__(self, max_bytes: int, since: int) -> None:
        self._max_bytes = max_bytes
        self._since = since
        self._bytes = 0
        self._commits: deque[tuple[int, pa.Table, int]] = deque()
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def add(self, sequence: int, rows: pa.Table) -> None:
        size = rows.nbytes
        with self._lock:
            self._commits.append((sequence, rows, size))
            self._bytes += size
            while self._bytes > self._max_bytes and self._commits:
                dropped, _, freed = self._commits.popleft()
                self._since = dropped
                self._bytes -= freed

    def clear(self, since: int) -> None:
        with self._lock:
            self._commits.clear()
            self._bytes = 0
            self._since = since

    def window(self, after: int, through: int) -> list[pa.Table] | None:
        """The commits in `(after, through]`, or None when some of them are no longer here."""
        with self._lock:
            if after < self._since:
                return None
            return [rows for sequence, rows, _ in self._commits if after < sequence <= through]

    def newest(self, after: int, through: int, *, max_rows: int, max_bytes: int) -> list[pa.Table]:
        """The newest rows in `(after, through]` that are still in memory, oldest first, up to both limits."""
        with self._lock:
            commits = [rows for sequence, rows, _ in self._commits if after < sequence <= through]
        found: list[pa.Table] = []
        for rows in reversed(commits):
            last = _last_rows(rows, max_rows, max_bytes)
            found.append(last)
            max_rows -= last.num_rows
            max_bytes -= last.nbytes
            if last.num_rows < rows.num_rows or max_rows <= 0:
                break
        return found[::-1]


def _last_rows(rows: pa.Table, max_rows: int, max_bytes: int) -> pa.Table:
    """As many of the last rows as fit; halving finds nearly the maximum."""
    count = min(rows.num_rows, max_rows)
    while count and rows.slice(rows.num_rows - count).nbytes > max_bytes:
        count //= 2
    return rows.slice(rows.num_rows - count)
