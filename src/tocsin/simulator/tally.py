"""Counts of a run's events."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    messages: int = 0
    placements: int = 0
    logins: int = 0
    logouts: int = 0
    subscribes: int = 0
    unsubscribes: int = 0
    migrations: int = 0
    plans: int = 0
    failures: int = 0
