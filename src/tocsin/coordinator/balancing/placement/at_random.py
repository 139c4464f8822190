"""Any broker, all as likely."""

from __future__ import annotations

from tocsin.coordinator.balancing.placement.base import Newcomer
from tocsin.coordinator.loads import NetworkView
from tocsin.model.chance import Chance


def at_random(view: NetworkView, _newcomer: Newcomer, chance: Chance) -> str:
    return view.brokers[chance.randrange(len(view.brokers))].name
