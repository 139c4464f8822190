"""What a placement policy is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tocsin.coordinator.loads import NetworkView
from tocsin.coordinator.records import Point, SubscriptionKey


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Who is to be placed: where they are, if they told, and what they are known to hold."""

    place: Point | None = None
    subscriptions: tuple[SubscriptionKey, ...] = ()


class Chance(Protocol):
    """A `random.Random`, owned and seeded by whoever calls."""

    def randrange(self, stop: int, /) -> int: ...


#: The name of a broker in the view. The view shows at least one, and only such as may be chosen.
PlacementPolicy = Callable[[NetworkView, Newcomer, Chance], str]
