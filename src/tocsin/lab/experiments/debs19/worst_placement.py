"""The placement that the paper warns of, for showing that it is right to. Nobody should use it."""

from __future__ import annotations

from tocsin.balancing.placement import Newcomer
from tocsin.balancing.views import NetworkView
from tocsin.model.chance import Chance


def least_loaded(view: NetworkView, _newcomer: Newcomer, chance: Chance) -> str:
    """The broker with the least load now, and any of them if there are several. Those who have only just come, and hold
    nothing yet, do not count."""
    least = min(one.score for one in view.brokers)
    names = [one.name for one in view.brokers if one.score == least]
    return names[chance.randrange(len(names))]
