"""The types of migration and shuffle policies (pure)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.assignment import AssignmentView, Numbers


@dataclass(frozen=True, slots=True)
class Goal:
    """When migration may stop, and how much it may move.

    Migration goes on while the brokers' scores vary by more than `cov_at_most` and their mean is above `mean_above`, or
    while a broker's score is below `idle_below` times the mean. A shuffle keeps to the budget. To save moves, it may
    also leave the highest score above the lowest that it knows, by the share `spare_moves_within`.
    """

    cov_at_most: float = 0.15
    mean_above: float = 0.0
    idle_below: float = 0.0
    max_moves: int | None = None
    spare_moves_within: float = 0.0

    @property
    def thresholds(self) -> tuple[float, float, float]:
        """As floats for compiled loops: with an integer they would be compiled again."""
        return float(self.cov_at_most), float(self.mean_above), float(self.idle_below)


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """Each subscriber's proposed broker. `why[i]` says which of the `reasons` subscriber `i` is moved for."""

    owners: Numbers
    reasons: tuple[str, ...]
    why: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))

    def reason(self, subscriber: int) -> str:
        return self.reasons[self.why[subscriber] if len(self.why) else 0]


def then(first: Proposal, second: Proposal) -> Proposal:
    """The net effect of one after the other; subscribers that the second moved have its reason."""
    moved = second.owners != first.owners
    reason = [one.why if len(one.why) else np.zeros(len(one.owners), np.int8) for one in (first, second)]
    why = np.where(moved, reason[1] + len(first.reasons), reason[0]).astype(np.int8)
    return Proposal(second.owners, first.reasons + second.reasons, why)


#: Policies get the frozen view and propose; they change nothing and draw nothing.
BalancingPolicy = Callable[[AssignmentView, Goal], Proposal]
