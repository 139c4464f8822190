"""Whether a plan is worth its moves (pure).

Both sides are bytes. The gain is what busy brokers are spared over the horizon: what they carry above the mean, and
what is fetched more than once. The cost is what is carried twice: for each move, what the subscriber is sent, for the
time in which both brokers hold its subscriptions.

Bursts come on top of what is expected. If a broker is expected to be off the mean by d, and chance makes c, it will be
off by about sqrt(d² + c²). So where chance makes most of it, there is little to gain.

Without sharing, no plan gains more than the horizon over the time that a move costs, about ten times its cost: then
every byte that moves leaves a broker that has too much for one that has too little.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

from tocsin.balancing.evenness import Balance
from tocsin.coordinator.load.outlook import Outlook
from tocsin.coordinator.load.plan import Plan
from tocsin.coordinator.load.promises import Promise

#: So long after a subscriber has left, its broker still fetches for it: see `broker.core.claiming`.
_LINGERING_S = 30.0


@dataclass(frozen=True, slots=True)
class Worth:
    """Bytes that a plan saves busy brokers, and bytes that its moves cost."""

    gain_bytes: float
    cost_bytes: float

    @property
    def ratio(self) -> float:
        """Gain over cost."""
        return self.gain_bytes / self.cost_bytes if self.cost_bytes > 0 else 0.0


def worth_of(plan: Plan, outlook: Outlook, trust: float) -> Worth:
    """`trust` is the part of what plans promise that is to be believed."""
    spared_per_s = above_mean(plan.before, outlook.chance) - above_mean(plan.after, outlook.chance)
    spared_per_s += plan.before.total - plan.after.total
    cost_bytes = float(plan.mover_loads.sum()) * (outlook.move_s + _LINGERING_S)
    return Worth(trust * spared_per_s * outlook.horizon_s, cost_bytes)


def above_mean(balance: Balance, chance: float) -> float:
    """What brokers will carry above the mean, in bytes per second. It is as much as others will carry below it, so that
    it is half of what all of them are off by."""
    mean = balance.mean
    compared = balance.compared
    if mean <= 0:
        return 0.0
    capacity = balance.total / sum(balance.scores)
    return capacity * mean * sum(hypot(score / mean - 1, chance) for score in compared) / 2


def promise_of(plan: Plan, plan_id: str, chance: float) -> Promise:
    """No plan can promise less than chance makes."""
    return Promise(plan_id, hypot(plan.before.cov, chance), hypot(plan.after.cov, chance))
