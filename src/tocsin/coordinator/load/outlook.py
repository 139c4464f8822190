"""How far the loads of the next minutes can be known: learned from how far the last forecasts were off (pure).

Whoever is where, a burst here and none there make brokers uneven. No plan can do anything about that: the next bursts
are elsewhere. When a window is over, each broker's load in it is compared with the one that was expected for the same
subscribers. The cov of these differences is `chance`: how uneven the brokers would be if every plan were perfect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

#: By how much a window's weight falls with each later one: about five windows count. While a city wakes up, chance
#: falls quickly.
_REMEMBERED = 0.8
#: Plans are made for at least this long: windows may be short because channels' periods are, but moves cost as much.
LEAST_HORIZON_S = 300.0


@dataclass(frozen=True, slots=True)
class Outlook:
    """`chance` is the cov that bursts alone make; `horizon_s` the time that a plan is for; `move_s` how long
    a move takes."""

    chance: float = 0.0
    horizon_s: float = 300.0
    move_s: float = 1.0


class ForecastErrors:
    def __init__(self) -> None:
        self._squares = 0.0
        self._weight = 0.0

    @property
    def chance(self) -> float:
        """0 until a forecast was compared."""
        return sqrt(self._squares / self._weight) if self._weight else 0.0

    def compare(self, expected: Sequence[float], seen: Sequence[float]) -> None:
        """The brokers' scores in a window that is over. What they have in common counts as no error: it makes no broker
        more loaded than another."""
        if len(expected) < 2 or sum(expected) <= 0 or sum(seen) <= 0:
            return
        means = fmean(expected), fmean(seen)
        errors = [(after / means[1] - before / means[0]) ** 2 for before, after in zip(expected, seen, strict=True)]
        self._squares = _REMEMBERED * self._squares + fmean(errors)
        self._weight = _REMEMBERED * self._weight + 1


class MoveTimes:
    """How long moves take: a moving average of those that succeeded."""

    #: A move takes two heartbeats and a connection, about a second, until moves were measured.
    _AT_FIRST_S = 1.0
    #: The weight of the newest: moves of one plan are alike, and there are many.
    _GAIN = 0.05

    def __init__(self) -> None:
        self.mean_s = self._AT_FIRST_S

    def add(self, took_s: float) -> None:
        self.mean_s += self._GAIN * (took_s - self.mean_s)
