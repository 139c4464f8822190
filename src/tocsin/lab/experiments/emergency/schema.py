"""The application's statements, with periods that can be shortened for a demonstration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

#: The seven channels and what each is subscribed with. Whom something is near to is filled in by brokers.
CHANNELS: dict[str, tuple[str, ...]] = {
    "EmergenciesOfType": ("etype",),
    "EmergenciesAtLocation": ("x", "y", "radius_m"),
    "EmergenciesNearMe": ("radius_m",),
    "EmergenciesOfTypeNearMe": ("etype", "radius_m"),
    "EmergenciesOfTypeAtLocation": ("etype", "x", "y", "radius_m"),
    "EmergenciesOfTypeWithShelterNearMe": ("etype",),
    "EmergenciesOfTypeAtLocationWithShelter": ("etype", "x", "y"),
}

#: Their `user_id` is filled in with the subscriber's name.
_OF_A_USER = frozenset(name for name in CHANNELS if name.endswith("NearMe"))

_PERIOD = re.compile(r"\bPERIOD ([\d.]+) SECONDS\b")
#: The shortest that a channel may have.
_SHORTEST_S = 0.1


def schema_sql(period_scale: float = 1.0) -> str:
    """Three datasets, two feeds and seven channels; each period times `period_scale`.

    >>> "EmergenciesOfType (etype STRING) PERIOD 2 SECONDS" in schema_sql(period_scale=0.2)
    True
    """
    text = resources.files(__package__).joinpath("schema.sql").read_text()
    return _PERIOD.sub(
        lambda match: f"PERIOD {max(_SHORTEST_S, round(float(match[1]) * period_scale, 3)):g} SECONDS", text
    )


def subscription_of(user: str, channel: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What a broker asks the cluster for when `user` subscribes.

    >>> subscription_of("ann", "EmergenciesNearMe", {"radius_m": 5})["parameters"]
    {'radius_m': 5, 'user_id': 'ann'}
    """
    if channel not in _OF_A_USER:
        return {"channel": channel, "parameters": dict(parameters)}
    return {"channel": channel, "parameters": {**parameters, "user_id": user}, "filled": ["user_id"]}


def longest_period_s(statements: str) -> float:
    """The longest period in `statements`: after one more of it, every channel has seen everything."""
    return max(float(seconds) for seconds in _PERIOD.findall(statements))
