"""The next broker in the order of names, whatever it carries."""

from __future__ import annotations

from tocsin.coordinator.balancing.placement.base import Newcomer
from tocsin.coordinator.loads import NetworkView
from tocsin.model.chance import Chance


def round_robin(view: NetworkView, _newcomer: Newcomer, _chance: Chance) -> str:
    """Goes on after the last one chosen even if that one is gone."""
    names = sorted(broker.name for broker in view.brokers)
    return next((name for name in names if name > view.last_placed), names[0])
