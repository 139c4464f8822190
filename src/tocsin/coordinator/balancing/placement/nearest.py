"""The broker nearest to the newcomer."""

from __future__ import annotations

import math

from tocsin.coordinator.balancing.placement.base import Newcomer
from tocsin.coordinator.balancing.placement.least_resulting_load import least_resulting_load
from tocsin.coordinator.loads import NetworkView
from tocsin.model.chance import Chance


def nearest(view: NetworkView, newcomer: Newcomer, chance: Chance) -> str:
    """If newcomer or brokers are nowhere in particular, the least loaded. Of two as near, the less loaded."""
    if newcomer.place is not None:
        placed = [
            (math.dist(newcomer.place, one.place), one.score, one.name) for one in view.brokers if one.place is not None
        ]
        if placed:
            return min(placed)[2]
    return least_resulting_load(view, newcomer, chance)
