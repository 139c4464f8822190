"""The stages in which load is evened out, and when each is due (pure values)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """What load is evened out by, from the gentlest on; placement needs no plan. Evacuation is no part of balancing: it
    empties brokers that are leaving or dead."""

    MIGRATION = "migration"
    SHUFFLE = "shuffle"
    EVACUATION = "evacuation"


@dataclass(frozen=True, slots=True)
class StageSettings:
    """The papers' thresholds, and what keeps the stages from doing too much. `beta` and `theta` are bytes per second
    per unit of capacity. No name for a stage's policy: that stage is off."""

    alpha: float = 0.15
    beta: float = 0.0
    gamma: float = 0.5
    theta: float = 0.0
    migration: str = "group"
    shuffle: str = "sharing"
    hits: int = 3
    shuffle_hits: int = 2
    settle_s: float = 60.0
    rest_s: float = 300.0
    idle_below: float = 0.1
    max_moves: int | None = None
