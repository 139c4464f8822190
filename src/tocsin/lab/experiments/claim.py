"""What a claim is, and how it is judged: by figures of runs, against bounds that stand beside it with their reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tocsin.simulator.timeline import Run

#: By the names of variants.
Runs = Mapping[str, Run]

#: The source of claims that the paper does not make.
OURS = "ours"


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must be so for the claim to hold, in words that still read well when it is not."""

    expected: str
    is_met: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    measured: str
    numbers: Mapping[str, float]
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """`source` is where the paper makes it; `needs` are the variants that `judge` looks at."""

    id: str
    says: str
    source: str
    needs: tuple[str, ...]
    judge: Callable[[Runs], Judgement]

    def find(self, runs: Runs) -> Finding:
        judgement = self.judge(runs)
        unmet = [check.expected for check in judgement.checks if not check.is_met]
        return Finding(
            self.id,
            self.says,
            self.source,
            judgement.measured,
            holds=not unmet,
            why=f"Expected {'; and '.join(unmet)}." if unmet else "",
            numbers={name: round(value, 6) for name, value in judgement.numbers.items()},
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a claim. `why` is empty if it holds."""

    id: str
    claim: str
    source: str
    measured: str
    holds: bool
    why: str
    numbers: Mapping[str, float] = field(default_factory=dict)


def claim(id_: str, says: str, source: str, *needs: str) -> Callable[[Callable[[Runs], Judgement]], Claim]:
    """Make a claim of the function that judges it."""
    return lambda judge: Claim(id_, says, source, needs, judge)


def rank_correlation(xs: list[float], ys: list[float]) -> float:
    """Spearman's: 1 if the ys rise with the xs without exception, -1 if they fall. Ties share their ranks.

    >>> rank_correlation([1, 2, 3], [10, 20, 30]), rank_correlation([1, 2, 3], [5, 5, 5])
    (1.0, 0.0)
    """
    first, second = _ranks(xs), _ranks(ys)
    mean = (len(xs) - 1) / 2
    spread = (sum((one - mean) ** 2 for one in first) * sum((one - mean) ** 2 for one in second)) ** 0.5
    if not spread:
        return 0.0
    return float(sum((one - mean) * (two - mean) for one, two in zip(first, second, strict=True)) / spread)


def _ranks(values: list[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]
