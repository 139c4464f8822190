"""What a claim is, and how it is judged: by figures of runs, against bounds that stand beside it with their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import fmean, stdev
from typing import Literal

from tocsin.simulator.timeline import Run

#: By the names of variants; all of one seed.
Runs = Mapping[str, Run]

#: A claim of the paper; a check that our set-up is the paper's, which is no evidence of anything else; a claim of ours.
Kind = Literal["paper", "set-up", "ours"]

#: The source of claims that the paper does not make.
OURS = "ours"

#: A claim holds if it holds for this share of the seeds: nine of ten, and the one of one.
_SHARE_OF_SEEDS = 0.9


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must be so for the claim to hold, in words that still read well when it is not."""

    expected: str
    is_met: bool


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one seed's runs. The names of the numbers are read as text."""

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
    kind: Kind = "paper"
    #: What the paper's text or slides say in figures or in words, where they do.
    paper: str = ""
    paper_value: float | None = None

    def find(self, *seeds: Runs) -> Finding:
        judgements = [self.judge(runs) for runs in seeds]
        held = sum(all(check.is_met for check in one.checks) for one in judgements)
        holds = held >= ceil(_SHARE_OF_SEEDS * len(judgements))
        numbers, spread = _numbers(judgements)
        return Finding(
            self.id,
            self.says,
            self.source,
            self.kind,
            self.paper,
            self.paper_value,
            _measured(numbers, spread),
            holds,
            held,
            len(judgements),
            "" if holds else f"Expected {'; and '.join(_unmet(judgements))}.",
            numbers,
            spread,
        )


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a claim. `why` is empty if it holds. `numbers` are means over the seeds, `spread` their standard
    deviations."""

    id: str
    claim: str
    source: str
    kind: Kind
    paper: str
    paper_value: float | None
    measured: str
    holds: bool
    held: int
    seeds: int
    why: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)


def claim(
    id_: str, says: str, source: str, *needs: str, kind: Kind = "paper", paper: str = "", value: float | None = None
) -> Callable[[Callable[[Runs], Judgement]], Claim]:
    """Make a claim of the function that judges it."""
    return lambda judge: Claim(id_, says, source, needs, judge, kind, paper, value)


def _numbers(judgements: Sequence[Judgement]) -> tuple[dict[str, float], dict[str, float]]:
    """Means and standard deviations. A number that some seeds do not have is of the others."""
    values: dict[str, list[float]] = {}
    for one in judgements:
        for name, value in one.numbers.items():
            values.setdefault(name, []).append(value)
    spread = {name: round(stdev(some), 6) for name, some in values.items() if len(some) > 1}
    return {name: round(fmean(some), 6) for name, some in values.items()}, spread


def _measured(numbers: Mapping[str, float], spread: Mapping[str, float]) -> str:
    return "; ".join(
        f"{name} {shown(value)}" + (f" ± {shown(spread[name])}" if name in spread else "")
        for name, value in numbers.items()
    )


def _unmet(judgements: Sequence[Judgement]) -> list[str]:
    """What was expected in vain, and of how many seeds it was true."""
    everything = [check for one in judgements for check in one.checks]
    asked = Counter(check.expected for check in everything)
    met = Counter(check.expected for check in everything if check.is_met)
    if len(judgements) == 1:
        return [expected for expected in asked if not met[expected]]
    return [
        f"{expected} (so for {met[expected]} of {len(judgements)} seeds)"
        for expected, count in asked.items()
        if met[expected] < count
    ]


def shown(value: float) -> str:
    """Three digits say all that ten seeds can.

    >>> shown(0.14925), shown(1810.4), shown(55.0), shown(0.0021)
    ('0.149', '1,810', '55', '0.0021')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
