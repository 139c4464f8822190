"""The policies that a scenario may name: ours, and those that other packages bring. They are looked for once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tocsin.balancing.migration import POLICIES as MIGRATIONS
from tocsin.balancing.placement import POLICIES as PLACEMENTS
from tocsin.balancing.placement import PlacementPolicy
from tocsin.balancing.plugins import with_plugins
from tocsin.balancing.proposal import BalancingPolicy
from tocsin.balancing.shuffle import POLICIES as SHUFFLES


@cache
def placements() -> Mapping[str, PlacementPolicy]:
    return with_plugins("placement", PLACEMENTS)


@cache
def migrations() -> Mapping[str, BalancingPolicy]:
    return with_plugins("migration", MIGRATIONS)


@cache
def shuffles() -> Mapping[str, BalancingPolicy]:
    return with_plugins("shuffle", SHUFFLES)
