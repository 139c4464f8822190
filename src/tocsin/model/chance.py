"""Chance as an argument: code that draws random numbers is given their source."""

from __future__ import annotations

from typing import Protocol


class Chance(Protocol):
    """A `random.Random` that the caller owns and seeds."""

    def randrange(self, stop: int, /) -> int: ...
