"""The policies that a scenario may name: ours, and those that other packages bring. They are looked for once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tocsin.coordinator.balancing.migration import POLICIES as MIGRATIONS
from tocsin.coordinator.balancing.outsiders import with_outsiders
from tocsin.coordinator.balancing.placement import POLICIES as PLACEMENTS
from tocsin.coordinator.balancing.placement import PlacementPolicy
from tocsin.coordinator.balancing.proposal import BalancingPolicy
from tocsin.coordinator.balancing.shuffle import POLICIES as SHUFFLES


@cache
def placements() -> Mapping[str, PlacementPolicy]:
    return with_outsiders("placement", PLACEMENTS)


@cache
def migrations() -> Mapping[str, BalancingPolicy]:
    return with_outsiders("migration", MIGRATIONS)


@cache
def shuffles() -> Mapping[str, BalancingPolicy]:
    return with_outsiders("shuffle", SHUFFLES)
