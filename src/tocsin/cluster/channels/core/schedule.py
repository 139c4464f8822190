"""When repetitive channels are due (pure).

A run that outlasts its period delays the next run, which then covers all periods that have passed: one run over one
larger window. Nothing here ever stops a channel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(slots=True)
class _Entry:
    period_s: float
    due_s: float
    running: bool = False


class Schedule:
    """Times are seconds of any clock that only grows.

    >>> schedule = Schedule()
    >>> schedule.put("C", period_s=10, now_s=0)
    >>> schedule.take_due(9.9), schedule.take_due(10)
    ([], ['C'])
    >>> schedule.finished("C", now_s=34), schedule.next_due_s()
    (2, 40)
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def put(self, channel: str, period_s: float, now_s: float) -> None:
        """A new channel is due after one period. One that is there already is due one new period after its last run was
        or, if that is past, at once."""
        entry = self._entries.setdefault(channel, _Entry(period_s, now_s + period_s))
        if not entry.running:
            entry.due_s = max(now_s, entry.due_s + period_s - entry.period_s)
        entry.period_s = period_s

    def remove(self, channel: str) -> None:
        self._entries.pop(channel, None)

    def take_due(self, now_s: float) -> list[str]:
        """Channels whose run should begin now, the longest overdue first. They count as running until `finished`."""
        due = [
            (entry.due_s, name) for name, entry in self._entries.items() if not entry.running and entry.due_s <= now_s
        ]
        for _, name in due:
            self._entries[name].running = True
        return [name for _, name in sorted(due)]

    def finished(self, channel: str, now_s: float) -> int:
        """A run has ended; returns how many periods it outlasted. The next run keeps to the channel's beat."""
        entry = self._entries.get(channel)
        if entry is None:
            return 0
        missed = max(0, math.floor((now_s - entry.due_s) / entry.period_s))
        entry.due_s += (missed + 1) * entry.period_s
        entry.running = False
        return missed

    def next_due_s(self) -> float | None:
        """When the next channel that is not running is due; None if there is none."""
        return min((entry.due_s for entry in self._entries.values() if not entry.running), default=None)
