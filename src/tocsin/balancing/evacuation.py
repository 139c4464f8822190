"""Moves each subscriber of leaving brokers to the broker that would have the lowest score with it (pure).

The heaviest come first; subscribers that are away, and are sent nothing, come last and go where they add least.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.assignment import AssignmentView
from tocsin.balancing.compiled import compiled
from tocsin.balancing.load_table import NOWHERE, LoadTable, added, join
from tocsin.balancing.proposal import Proposal

NAME = "least-resulting-load"
_REASONS = ("its broker is drained, dead or removed; the destination has the lowest load with it",)


def evacuate(view: AssignmentView) -> Proposal:
    """Moves all movable subscribers of the view."""
    if not view.takes.any():
        return Proposal(view.owners, _REASONS)
    table = LoadTable.without(view, view.movable)
    _assign(table, table.heaviest_first(view.movable))
    return Proposal(table.owners, _REASONS)


@compiled
def _assign(table: LoadTable, order: NDArray[np.int64]) -> None:
    for subscriber in order:
        best, lowest = NOWHERE, np.inf
        for broker in range(len(table.loads)):
            if table.takes[broker]:
                score = (table.loads[broker] + added(table, subscriber, broker)) / table.capacities[broker]
                if score < lowest:
                    best, lowest = broker, score
        join(table, subscriber, best)
