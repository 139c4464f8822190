"""Chance as an argument: whoever draws is given what to draw from."""

from __future__ import annotations

from typing import Protocol


class Chance(Protocol):
    """A `random.Random`, owned and seeded by whoever calls."""

    def randrange(self, stop: int, /) -> int: ...
