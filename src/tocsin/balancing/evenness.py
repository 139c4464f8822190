"""How even the brokers' loads are (pure).

A broker that takes no subscribers, because it is cordoned, can be relieved but not filled. So it is compared with the
others only if its score is above the mean of those that take subscribers. Below that, no plan can make it more even:
if it counted, an even network with an empty cordoned broker would call for plans for ever. Its load exists all the
same: it is part of the loads, the total, and the highest score. A broker idles only if it takes subscribers. Brokers
that are draining, dead or gone are compared in no case: evacuation empties them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True)
class Balance:
    """The brokers' loads. `loads` are bytes per second; scores are loads divided by the brokers' capacities; `takes`
    says which brokers take subscribers."""

    brokers: tuple[str, ...]
    loads: tuple[float, ...]
    scores: tuple[float, ...]
    takes: tuple[bool, ...]

    @staticmethod
    def of(
        brokers: Sequence[str], loads: Sequence[float], capacities: Sequence[float], takes: Sequence[bool] | None = None
    ) -> Balance:
        """Without `takes`, all brokers take subscribers."""
        scores = (load / capacity for load, capacity in zip(loads, capacities, strict=True))
        taking = (True,) * len(brokers) if takes is None else tuple(map(bool, takes))
        return Balance(tuple(brokers), tuple(loads), tuple(scores), taking)

    @property
    def total(self) -> float:
        return sum(self.loads)

    @property
    def compared(self) -> list[float]:
        return compared(self.scores, self.takes)

    @property
    def mean(self) -> float:
        """Of the brokers that are compared; 0 if there are none."""
        return _mean(self.compared)

    @property
    def max(self) -> float:
        """Of all brokers."""
        return max(self.scores, default=0.0)

    @property
    def cov(self) -> float:
        """The standard deviation over the mean of the scores that are compared; 0 if no broker has any load."""
        return cov_of(self.compared)

    def has_idle(self, below: float) -> bool:
        """Whether a broker that takes subscribers has a score below this share of the mean."""
        limit = below * self.mean
        return any(score < limit for score, takes in zip(self.scores, self.takes, strict=True) if takes)

    def figures(self) -> dict[str, float]:
        """For people."""
        return {name: float(getattr(self, name)) for name in ("cov", "max", "mean", "total")}


def compared(scores: Sequence[float], takes: Sequence[bool]) -> list[float]:
    """The scores that a plan should even out: those of brokers that take subscribers, and those above their mean."""
    taking = [score for score, flag in zip(scores, takes, strict=True) if flag]
    if not taking:
        return []
    floor = _mean(taking)
    return [score for score, flag in zip(scores, takes, strict=True) if flag or score > floor]


def cov_of(scores: Sequence[float]) -> float:
    """Their standard deviation over their mean: 0 if they are even, or if there are none."""
    mean = _mean(scores)
    if mean <= 0:
        return 0.0
    return sqrt(sum((one - mean) ** 2 for one in scores) / len(scores)) / mean


def _mean(scores: Sequence[float]) -> float:
    return sum(scores) / len(scores) if scores else 0.0
