"""Policies that other packages bring, by the entry point groups `tocsin.placement`, `.migration` and `.shuffle`.

An entry's name is what the policy is called on the wire; its object is a `PlacementPolicy` or a `BalancingPolicy`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TypeVar

_Policy = TypeVar("_Policy")

#: The standard library's, which warns on standard error where nobody has set up anything, as in `tocsin simulate`.
_log = logging.getLogger(__name__)


def with_outsiders(kind: str, ours: Mapping[str, _Policy]) -> Mapping[str, _Policy]:
    """Ours and those of outsiders. Ours keep their names; what can't be loaded is left out and told."""
    found: dict[str, _Policy] = {}
    for entry in entry_points(group=f"tocsin.{kind}"):
        try:
            policy = entry.load()
        except Exception as exc:  # noqa: BLE001 - whatever a stranger's module raises, the coordinator must start
            _log.warning("%s policy %s is left out: %s: %s", kind, entry.name, type(exc).__name__, exc)
            continue
        found[entry.name] = policy
    return {**found, **ours}
