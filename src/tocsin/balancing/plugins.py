"""Policies by name: ours, and those of other packages.

Other packages add policies in the entry point groups `tocsin.placement`, `tocsin.migration` and `tocsin.shuffle`.
An entry's name is the policy's name on the wire; its object is a `PlacementPolicy` or a `BalancingPolicy`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TypeVar

from tocsin.errors import InvalidValue

_Policy = TypeVar("_Policy")

#: The standard library's, which warns on standard error where logging is not set up, as in `tocsin simulate`.
_log = logging.getLogger(__name__)


def with_plugins(kind: str, ours: Mapping[str, _Policy]) -> Mapping[str, _Policy]:
    """Our policies and those of other packages. Ours keep their names. A policy that can't be loaded is left out."""
    found: dict[str, _Policy] = {}
    for entry in entry_points(group=f"tocsin.{kind}"):
        try:
            policy = entry.load()
        except Exception as exc:  # noqa: BLE001 - whatever another package's module raises, the coordinator must start
            _log.warning("%s policy %s is left out: %s: %s", kind, entry.name, type(exc).__name__, exc)
            continue
        found[entry.name] = policy
    return {**found, **ours}


def policy_named(kind: str, name: str, policies: Mapping[str, _Policy]) -> _Policy:
    """The policy of that name. If there is none, raises InvalidValue with the existing names."""
    if (found := policies.get(name)) is None:
        raise InvalidValue(f"no {kind} policy called {name!r}; there are: {', '.join(sorted(policies))}")
    return found
