"""The stages in which load is evened out, and when each is due (pure values)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import msgspec


class Rule(StrEnum):
    """When a stage that is due begins: always, as in the paper; or only if its plan is worth its moves."""

    PLAIN = "plain"
    WORTHWHILE = "worthwhile"


class Stage(StrEnum):
    """The stages, from the gentlest on; placement needs no plan. Evacuation is no part of balancing: it empties brokers
    that are leaving or dead."""

    MIGRATION = "migration"
    SHUFFLE = "shuffle"
    EVACUATION = "evacuation"


@dataclass(frozen=True, slots=True)
class StageSettings:
    """The papers' thresholds, and limits that keep the stages from doing too much. `beta` and `theta` are bytes per
    second per unit of capacity. A stage whose policy is empty is off. By the rule `worthwhile`, a plan must gain
    `least_worth` times what its moves cost."""

    rule: Rule = Rule.WORTHWHILE
    least_worth: float = 5.0
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


@dataclass(frozen=True, slots=True)
class BalancingSettings:
    """Settings that operators can change at run time. Operators see the stages' settings and these as one list."""

    automatic: bool = False
    every_s: float = 5.0
    #: A broker that has been dead for this long is emptied.
    evacuate_after_s: float = 30.0
    #: The longest round trip to a broker that a plan may move a subscriber to, as far as it is known; None: any.
    reach_ms: float | None = None
    stages: StageSettings = field(default_factory=StageSettings)

    def listed(self) -> dict[str, Any]:
        own = asdict(self)
        stages = own.pop("stages")
        return {**own, **stages}

    def changed(self, changes: Mapping[str, Any]) -> BalancingSettings:
        """A copy with some of the list's values changed."""
        of_stages = {name: value for name, value in changes.items() if hasattr(self.stages, name)}
        own = {name: value for name, value in changes.items() if name not in of_stages}
        return replace(self, **own, stages=replace(self.stages, **of_stages))

    def to_text(self) -> str:
        return msgspec.json.encode(self).decode()

    @staticmethod
    def of_text(text: str) -> BalancingSettings:
        """Reads settings; an empty text gives the defaults."""
        return msgspec.json.decode(text, type=BalancingSettings) if text else BalancingSettings()
