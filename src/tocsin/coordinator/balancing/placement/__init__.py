"""Placement policies by name. Outsiders add theirs by the entry point group `tocsin.placement`; see `..outsiders`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tocsin.coordinator.balancing.placement.at_random import at_random
from tocsin.coordinator.balancing.placement.base import Newcomer, PlacementPolicy
from tocsin.coordinator.balancing.placement.least_resulting_load import least_resulting_load
from tocsin.coordinator.balancing.placement.nearest import nearest
from tocsin.coordinator.balancing.placement.round_robin import round_robin

POLICIES: Mapping[str, PlacementPolicy] = MappingProxyType(
    {
        "nearest": nearest,
        "round-robin": round_robin,
        "random": at_random,
        "least-resulting-load": least_resulting_load,
    }
)

__all__ = [
    "POLICIES",
    "Newcomer",
    "PlacementPolicy",
    "at_random",
    "least_resulting_load",
    "nearest",
    "round_robin",
]
