"""Simulated time: what is to happen, in the order of its time. Nothing here knows what happens."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from tocsin.errors import InvalidValue


class Kernel:
    """What is due at the same moment happens in the order in which it was asked for, so that a run repeats exactly."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._number = 0
        self._due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []

    def __len__(self) -> int:
        return len(self._due)

    def at(self, time_s: float, action: Callable[..., None], *arguments: Any) -> None:
        if not time_s >= self.now_s:
            raise InvalidValue(f"it is {self.now_s} s, and nothing can happen at {time_s} s any more")
        self._number += 1
        heappush(self._due, (time_s, self._number, action, arguments))

    def after(self, seconds: float, action: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now_s + seconds, action, *arguments)

    def run(self, until_s: float) -> None:
        """Let everything happen that is due by `until_s`, that moment included."""
        due = self._due
        while due and due[0][0] <= until_s:
            self.now_s, _, action, arguments = heappop(due)
            action(*arguments)
        self.now_s = max(self.now_s, until_s)
