"""Figures of one benchmark from two revisions, side by side (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure: its median over the rounds of each revision."""

    name: str
    before: float
    after: float

    @property
    def ratio(self) -> float | None:
        """After to before; None where that says nothing, because before was 0."""
        return self.after / self.before if self.before else None


def compare(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[Compared]:
    """The figures that both revisions print, in the order of the later one.

    >>> compare([{"p50_ms": 10}, {"p50_ms": 14}, {"p50_ms": 12}], [{"p50_ms": 6, "new": 1}])
    [Compared(name='p50_ms', before=12, after=6)]
    """
    older, newer = [dict(figures(one)) for one in before], [dict(figures(one)) for one in after]
    return [
        Compared(name, median(one[name] for one in older), median(one[name] for one in newer))
        for name in newer[0]
        if all(name in one for one in (*older, *newer))
    ]


def figures(result: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, float]]:
    """Each number of a result with its path.

    >>> list(figures({"churn": {"run_p99_s": 0.5, "is_ok": True}, "machine": "x"}))
    [('churn.run_p99_s', 0.5)]
    """
    for name, value in result.items():
        if isinstance(value, Mapping):
            yield from figures(value, f"{within}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{within}{name}", value


def turns(rounds: int) -> Iterator[str]:
    """Who is measured when. The first of each round takes turns, so a machine that gets slower favours nobody.

    >>> list(turns(2))
    ['before', 'after', 'after', 'before']
    """
    for number in range(rounds):
        yield from ("before", "after") if number % 2 == 0 else ("after", "before")
