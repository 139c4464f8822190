"""How even the brokers' loads are (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True)
class Balance:
    """The brokers' loads. `loads` are bytes per second; scores are loads divided by the brokers' capacities."""

    brokers: tuple[str, ...]
    loads: tuple[float, ...]
    scores: tuple[float, ...]

    @staticmethod
    def of(brokers: Sequence[str], loads: Sequence[float], capacities: Sequence[float]) -> Balance:
        scores = (load / capacity for load, capacity in zip(loads, capacities, strict=True))
        return Balance(tuple(brokers), tuple(loads), tuple(scores))

    @property
    def total(self) -> float:
        return sum(self.loads)

    @property
    def mean(self) -> float:
        return sum(self.scores) / len(self.scores) if self.scores else 0.0

    @property
    def max(self) -> float:
        return max(self.scores, default=0.0)

    @property
    def cov(self) -> float:
        """The standard deviation of the scores over their mean; 0 if no broker has any load."""
        return cov_of(self.scores)

    def figures(self) -> dict[str, float]:
        """For people."""
        return {name: float(getattr(self, name)) for name in ("cov", "max", "mean", "total")}


def cov_of(scores: Sequence[float]) -> float:
    """Their standard deviation over their mean: 0 if they are even, or if there are none."""
    mean = sum(scores) / len(scores) if scores else 0.0
    if mean <= 0:
        return 0.0
    return sqrt(sum((one - mean) ** 2 for one in scores) / len(scores)) / mean
