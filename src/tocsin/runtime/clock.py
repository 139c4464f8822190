"""Time as an argument: code that needs a clock is given one."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_us(self) -> int:
        """Wall-clock time, in microseconds since 1970. For people and retention, never for windows."""

    def monotonic_s(self) -> float:
        """Seconds that never go back; for periods and time-outs."""


class SystemClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        return time.monotonic()
