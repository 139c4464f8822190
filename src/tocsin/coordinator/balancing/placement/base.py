"""What a placement policy is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tocsin.coordinator.loads import NetworkView
from tocsin.coordinator.records import Point, SubscriptionKey
from tocsin.model.chance import Chance


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Who is to be placed: where they are, if they told, and what they are known to hold."""

    place: Point | None = None
    subscriptions: tuple[SubscriptionKey, ...] = ()


#: The name of a broker in the view. The view shows at least one, and only such as may be chosen.
PlacementPolicy = Callable[[NetworkView, Newcomer, Chance], str]
