"""Placement policies: which broker a newcomer goes to (pure).

Other packages add theirs by the entry point group `tocsin.placement`; see `plugins.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tocsin.balancing.views import BrokerView, NetworkView
from tocsin.coordinates.located import Located
from tocsin.model.chance import Chance
from tocsin.model.location import Location
from tocsin.protocol.subscription_keys import KeyText


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A subscriber to be placed: its location and where it is in the network, if known, and its known subscriptions."""

    location: Location | None = None
    subscriptions: tuple[KeyText, ...] = ()
    located: Located | None = None


#: Round trips that differ by less than this share and these milliseconds count as equal: estimates are no better.
_ABOUT = 1.1
_ABOUT_MS = 2.0

#: Returns the name of a broker in the view. The view has at least one broker, and each may be chosen.
PlacementPolicy = Callable[[NetworkView, Newcomer, Chance], str]


def round_robin(view: NetworkView, _newcomer: Newcomer, _chance: Chance) -> str:
    """The next broker by name after the last one chosen, whatever its load, even if that last one is gone."""
    names = sorted(broker.name for broker in view.brokers)
    return next((name for name in names if name > view.last_placed), names[0])


def at_random(view: NetworkView, _newcomer: Newcomer, chance: Chance) -> str:
    """Any broker, all equally likely."""
    return view.brokers[chance.randrange(len(view.brokers))].name


def least_resulting_load(view: NetworkView, newcomer: Newcomer, _chance: Chance) -> str:
    """The broker with the lowest score once the newcomer is there: sharing counts in its favour.

    A newcomer without subscriptions, or with such that bring nothing, goes to the broker with the fewest connections
    for its capacity.
    """
    if not any(view.brokers[0].rate_of(one) for one in newcomer.subscriptions):
        return min(view.brokers, key=lambda one: (one.crowd, one.score, one.name)).name
    return min(view.brokers, key=lambda one: (one.resulting_score(newcomer.subscriptions), one.crowd, one.name)).name


def nearest(view: NetworkView, newcomer: Newcomer, chance: Chance) -> str:
    """The broker nearest to the newcomer; of equally near ones, and without locations, the least loaded."""
    if newcomer.location is not None:
        found: list[BrokerView] = []
        nearest_m = math.inf
        for broker in view.brokers:
            if (
                broker.location is not None
                and (distance_m := math.dist(newcomer.location, broker.location)) <= nearest_m
            ):
                found = [*found, broker] if distance_m == nearest_m else [broker]
                nearest_m = distance_m
        if found:
            return min((one.score, one.name) for one in found)[1]
    return least_resulting_load(view, newcomer, chance)


def nearest_network(view: NetworkView, newcomer: Newcomer, chance: Chance) -> str:
    """The least loaded of the brokers with about the shortest round trip: as the newcomer has measured it, else as
    coordinates estimate it. If none is known, the least loaded of all."""
    if newcomer.located is not None:
        known = [
            (round_trip_ms, broker)
            for broker in view.brokers
            if (round_trip_ms := newcomer.located.round_trip_ms(broker.name, broker.coordinate)) is not None
        ]
        if known:
            at_most_ms = min(one for one, _ in known) * _ABOUT + _ABOUT_MS
            return min((broker.score, broker.name) for one, broker in known if one <= at_most_ms)[1]
    return least_resulting_load(view, newcomer, chance)


POLICIES: Mapping[str, PlacementPolicy] = MappingProxyType(
    {
        "nearest": nearest,
        "nearest-network": nearest_network,
        "round-robin": round_robin,
        "random": at_random,
        "least-resulting-load": least_resulting_load,
    }
)
