"""A run in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.network.history import Kind, Violation, summary

_MAX_LISTED = 20


@dataclass(slots=True)
class Report:
    seed: str
    bug: str
    subscribers: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    records_acknowledged: int = 0
    records_unknown: int = 0
    tenures: int = 0
    lives: int = 0
    notifications: int = 0
    repeated_after_return: int = 0
    #: Held at the cluster in the end, and of them those that no subscriber holds.
    backends: int = 0
    backends_of_nobody: int = 0
    calm_after_s: float = 0.0
    #: Of plans that were carried out meanwhile, by what became of them.
    moves: dict[str, int] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "bug": self.bug or None,
            "subscribers": self.subscribers,
            "kills": sum(self.kills.values()),
            "kills_by_target": dict(sorted(self.kills.items())),
            "records_acknowledged": self.records_acknowledged,
            "records_unknown": self.records_unknown,
            "subscriptions": self.tenures,
            "lives": self.lives,
            "notifications": self.notifications,
            "repeated_after_return": self.repeated_after_return,
            "backends": self.backends,
            "backends_of_nobody": self.backends_of_nobody,
            "calm_after_s": round(self.calm_after_s, 1),
            "moves": self.moves,
            "violations": len(self.violations),
            "violations_by_kind": summary(self.violations),
            "violations_listed": [f"{one.kind}: {one.what}" for one in _some_of_each(self.violations)],
            "seconds": round(self.seconds, 1),
        }


def _some_of_each(violations: Sequence[Violation]) -> list[Violation]:
    """So that a thousand of one kind don't hide the one of another."""
    each = max(1, _MAX_LISTED // max(1, len({one.kind for one in violations})))
    seen: Counter[Kind] = Counter()
    chosen = []
    for one in violations:
        seen[one.kind] += 1
        if seen[one.kind] <= each:
            chosen.append(one)
    return chosen[:_MAX_LISTED]
