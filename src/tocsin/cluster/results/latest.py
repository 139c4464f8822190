"""The newest result of each subscription, to tell which subscriptions have missed nothing without reading results.

A subscription that seldom has results keeps an old position. When its subscribers arrive at another broker, "everything
since then" would otherwise mean reading all results of all subscriptions since then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pyarrow as pa


class LatestResults:
    """Subscription → the sequence of its newest result, among all results after the sequence `since`.

    Results are noted before they can be read, so that an answer never misses one. Earlier results are read when a
    caller first asks so far back: `read_kept` returns the sequence after which results are kept, and the columns
    `subscription` and `sequence` of all kept results.

    >>> latest = LatestResults(since=40, read_kept=lambda: (0, pa.table({"subscription": [1], "sequence": [30]})))
    >>> latest.note(pa.table({"subscription": [2, 2], "sequence": [50, 51]}))
    >>> latest.behind({1: 40, 2: 50}), latest.behind({1: 20, 2: 51})
    ({2: 50}, {1: 20})
    """

    def __init__(self, since: int, read_kept: Callable[[], tuple[int, pa.Table]]) -> None:
        self._since = since
        self._read_kept = read_kept
        self._has_read = False
        self._newest: dict[int, int] = {}
        self._lock = threading.Lock()
        #: Held while `since` changes, so that nothing is removed while it is read; taken before the other lock.
        self._reaching_back = threading.Lock()

    def note(self, rows: pa.Table) -> None:
        """Results are about to be committed."""
        newest = newest_of(rows)
        with self._lock:
            self._newest.update(newest)

    def behind(self, positions: Mapping[int, int]) -> dict[int, int]:
        """The subscriptions that may have results after their position.

        Nothing is known of results that are no longer kept: a subscription with an older position counts as behind.
        """
        if not self._has_read and min(positions.values(), default=self._since) < self._since:
            self._reach_back()
        with self._lock:
            return {
                one: position
                for one, position in positions.items()
                if position < self._since or self._newest.get(one, 0) > position
            }

    def _reach_back(self) -> None:
        with self._reaching_back:
            if self._has_read:
                return
            since, rows = self._read_kept()
            kept = newest_of(rows)
            with self._lock:
                # Results that were noted meanwhile are newer than those that were read.
                self._newest = kept | self._newest
                self._since = since
                self._has_read = True

    def forget(self, through: int) -> None:
        """Results up to the sequence `through` are no longer kept; call it before they are removed."""
        with self._reaching_back, self._lock:
            self._since = max(self._since, through)
            self._newest = {one: sequence for one, sequence in self._newest.items() if sequence > through}


def newest_of(rows: pa.Table) -> dict[int, int]:
    """Subscription → the sequence of its newest result among these."""
    newest = rows.select(["subscription", "sequence"]).group_by("subscription").aggregate([("sequence", "max")])
    pairs = zip(newest.column("subscription").to_pylist(), newest.column("sequence_max").to_pylist(), strict=True)
    return dict(pairs)
