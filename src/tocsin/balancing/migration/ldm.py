"""Load-based dynamic migration: off the most loaded broker, to the least loaded."""

from __future__ import annotations

from tocsin.balancing.assignment import AssignmentView
from tocsin.balancing.migration.one_by_one import migrate_one_by_one
from tocsin.balancing.proposal import Goal, Proposal

_REASONS = ("among the heaviest at the most loaded broker; the destination was the least loaded",)


def ldm(view: AssignmentView, goal: Goal) -> Proposal:
    return Proposal(migrate_one_by_one(view, goal, by_similarity=False), _REASONS)
