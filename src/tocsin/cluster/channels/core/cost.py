"""What a channel costs: seconds of Spark, results, and bytes of their payloads (pure)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_SLOT_S = 60.0
#: An hour of slots: a channel that runs every few minutes still has several runs in it.
_SLOTS = 60


@dataclass(frozen=True, slots=True)
class Cost:
    spark_s: float = 0.0
    results: int = 0
    result_bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.spark_s + other.spark_s, self.results + other.results, self.result_bytes + other.result_bytes)


class CostHistory:
    """All of it, and that of the last hour, to the minute.

    >>> history = CostHistory()
    >>> history.add(Cost(spark_s=2.0), now_s=0)
    >>> history.add(Cost(spark_s=0.5, results=3, result_bytes=90), now_s=3000)
    >>> history.total
    Cost(spark_s=2.5, results=3, result_bytes=90)
    >>> history.last_hour(now_s=3700)
    Cost(spark_s=0.5, results=3, result_bytes=90)
    """

    def __init__(self) -> None:
        self.total = Cost()
        self._slots: deque[tuple[int, Cost]] = deque()

    def add(self, cost: Cost, now_s: float) -> None:
        self.total += cost
        slot = int(now_s // _SLOT_S)
        # Threads read the clock before they add, so a cost may come a moment after a later one.
        if self._slots and self._slots[-1][0] >= slot:
            slot, before = self._slots.pop()
            cost = before + cost
        self._slots.append((slot, cost))
        self._forget(now_s)

    def last_hour(self, now_s: float) -> Cost:
        self._forget(now_s)
        return sum((cost for _, cost in self._slots), Cost())

    def _forget(self, now_s: float) -> None:
        while self._slots and self._slots[0][0] <= now_s // _SLOT_S - _SLOTS:
            self._slots.popleft()
