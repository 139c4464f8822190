"""How fast notifications are, and how often brokers' caches help, over the last minute (pure).

Each heartbeat of a broker has its counts since the one before. Counts lie in slots of a second; a slot is reused after
a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tocsin.model.latencies import BUCKETS, percentile_s

#: How many seconds are kept.
SLOTS = 60
#: Hits and misses, which follow the latencies.
_HITS, _MISSES = BUCKETS, BUCKETS + 1

_Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Times are None if nothing was delivered, the hit rate if nobody had to catch up."""

    notifications: int = 0
    p50_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    cache_hit_rate: float | None = None

    @staticmethod
    def of(counts: _Counts) -> Deliveries:
        latencies = counts[:BUCKETS].tolist()
        asked = int(counts[_HITS] + counts[_MISSES])
        p50_s, p95_s, p99_s = (percentile_s(latencies, share) for share in (0.5, 0.95, 0.99))
        return Deliveries(sum(latencies), p50_s, p95_s, p99_s, int(counts[_HITS]) / asked if asked else None)


class DeliveryCounts:
    def __init__(self) -> None:
        self._slots: dict[str, _Counts] = {}
        self._second: dict[str, int] = {}

    def observe(self, broker: str, now_s: float, latencies: Sequence[int], hits: int, misses: int) -> None:
        if not (latencies or hits or misses):
            return
        slots = self._advanced(broker, int(now_s))
        slot = slots[int(now_s) % SLOTS]
        slot[: len(latencies)] += np.asarray(latencies, np.int64)
        slot[_HITS] += hits
        slot[_MISSES] += misses

    def forget(self, broker: str) -> None:
        self._slots.pop(broker, None)
        self._second.pop(broker, None)

    def of(self, brokers: Iterable[str], now_s: float, within_s: int = SLOTS) -> Deliveries:
        """All of these brokers together, over the last seconds."""
        second = int(now_s)
        chosen = [(second - back) % SLOTS for back in range(min(within_s, SLOTS))]
        total = np.zeros(BUCKETS + 2, np.int64)
        for broker in brokers:
            if broker in self._slots:
                total += self._advanced(broker, second)[chosen].sum(axis=0)
        return Deliveries.of(total)

    def _advanced(self, broker: str, second: int) -> _Counts:
        """The broker's slots; those of the seconds since the last call are emptied."""
        slots = self._slots.get(broker)
        if slots is None:
            slots = self._slots[broker] = np.zeros((SLOTS, BUCKETS + 2), np.int64)
            self._second[broker] = second
        for passed in range(max(self._second[broker] + 1, second - SLOTS + 1), second + 1):
            slots[passed % SLOTS] = 0
        self._second[broker] = max(second, self._second[broker])
        return slots
