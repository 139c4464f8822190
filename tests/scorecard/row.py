"""A row of the scorecard: what is tried, how often, and what came of it (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Counts = Mapping[str, int]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much one run of a row is to do."""

    #: What is counted → how many of it.
    counts: Counts
    seed: str
    #: Tells whoever waits how far it is.
    say: Say

    def __getitem__(self, what: str) -> int:
        return self.counts[what]


@dataclass(frozen=True, slots=True)
class Outcome:
    #: What is counted → how many of it were done.
    counts: Counts
    #: What must not have happened, one line each. Their number is the row's `bad`.
    bad: tuple[str, ...] = ()
    #: Other figures worth reading.
    figures: Mapping[str, Any] = field(default_factory=dict)
    #: What this run does not show, and why.
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    number: int
    title: str
    #: What passing means, in a few words.
    target: str
    full: Counts
    brief: Counts
    run: Callable[[Effort], Outcome]


@dataclass(frozen=True, slots=True)
class Result:
    """One run of a row, as it is kept."""

    number: int
    seed: str
    seconds: float
    is_brief: bool
    counts: Counts
    bad: int
    #: The first few of them.
    bad_listed: tuple[str, ...]
    figures: Mapping[str, Any]
    limits: tuple[str, ...]
    #: The version of the code that was tried.
    revision: str

    def shortfall(self, row: Row) -> dict[str, tuple[int, int]]:
        """What was done less often than the row asks for: done, and asked for."""
        return {
            what: (self.counts.get(what, 0), wanted)
            for what, wanted in row.full.items()
            if self.counts.get(what, 0) < wanted
        }
