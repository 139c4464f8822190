"""Placement policies that other packages bring, by the entry point group `tocsin.placement`.

An entry's name is what the policy is called on the wire; its object is a `PlacementPolicy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points

import structlog

from tocsin.coordinator.balancing.placement import POLICIES, PlacementPolicy

log = structlog.get_logger(__name__)

_GROUP = "tocsin.placement"


def all_policies() -> Mapping[str, PlacementPolicy]:
    """Ours and those of outsiders. Ours keep their names; what can't be loaded is left out and told."""
    found: dict[str, PlacementPolicy] = {}
    for entry in entry_points(group=_GROUP):
        try:
            policy = entry.load()
        except Exception as exc:  # noqa: BLE001 - whatever a stranger's module raises, the coordinator must start
            log.warning("placement policy not loaded", policy=entry.name, reason=f"{type(exc).__name__}: {exc}")
            continue
        found[entry.name] = policy
    return {**found, **POLICIES}
