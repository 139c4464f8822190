"""The broker that is the least loaded for its capacity once the newcomer is there: sharing counts in its favour."""

from __future__ import annotations

from tocsin.coordinator.balancing.placement.base import Newcomer
from tocsin.coordinator.loads import NetworkView
from tocsin.model.chance import Chance


def least_resulting_load(view: NetworkView, newcomer: Newcomer, _chance: Chance) -> str:
    """One who brings no subscriptions goes where the fewest are connected."""
    if not newcomer.subscriptions:
        return min(view.brokers, key=lambda one: (one.crowd, one.score, one.name)).name
    return min(view.brokers, key=lambda one: (one.resulting_score(newcomer.subscriptions), one.crowd, one.name)).name
