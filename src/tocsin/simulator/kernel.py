"""Simulated time: calls actions in the order of their times, and knows nothing about them."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from tocsin.errors import InvalidValue


class Kernel:
    """Actions of the same moment are called in the order in which they were added, so that a run repeats exactly."""

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
        """Call all actions that are due up to and including `until_s`."""
        due = self._due
        while due and due[0][0] <= until_s:
            self.now_s, _, action, arguments = heappop(due)
            action(*arguments)
        self.now_s = max(self.now_s, until_s)
