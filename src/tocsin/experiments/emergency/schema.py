"""The application's statements, with periods that can be shortened for a demonstration."""

from __future__ import annotations

import re
from importlib import resources

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


def longest_period_s(statements: str) -> float:
    """The longest period in `statements`: after one more of it, every channel has seen everything."""
    return max(float(seconds) for seconds in _PERIOD.findall(statements))
