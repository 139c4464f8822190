"""The broker nearest to the newcomer."""

from __future__ import annotations

import math

from tocsin.coordinator.balancing.placement.base import Newcomer
from tocsin.coordinator.balancing.placement.least_resulting_load import least_resulting_load
from tocsin.coordinator.loads import BrokerView, NetworkView
from tocsin.model.chance import Chance


def nearest(view: NetworkView, newcomer: Newcomer, chance: Chance) -> str:
    """If newcomer or brokers are nowhere in particular, the least loaded. Of two as near, the less loaded."""
    if newcomer.place is not None:
        found: list[BrokerView] = []
        nearest_m = math.inf
        for broker in view.brokers:
            if broker.place is not None and (distance_m := math.dist(newcomer.place, broker.place)) <= nearest_m:
                found = [*found, broker] if distance_m == nearest_m else [broker]
                nearest_m = distance_m
        if found:
            return min((one.score, one.name) for one in found)[1]
    return least_resulting_load(view, newcomer, chance)
