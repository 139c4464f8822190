"""Moves each subscriber of leaving brokers to the broker that would have the lowest score with it (pure).

The heaviest come first. Subscribers that are sent nothing, since they are away or nothing comes for them, come last and
go where they add least; of equal brokers, to the one with the fewest subscribers for its capacity. Who has no broker
within reach stays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.assignment import AssignmentView, Floats, Numbers
from tocsin.balancing.compiled import compiled
from tocsin.balancing.load_table import NOWHERE, LoadTable, added, join, may_go_to
from tocsin.balancing.proposal import Proposal

NAME = "least-resulting-load"
_REASONS = ("its broker is drained, dead or removed; the destination has the lowest load with it",)


def evacuate(view: AssignmentView) -> Proposal:
    """Moves all movable subscribers of the view."""
    if not view.takes.any():
        return Proposal(view.owners, _REASONS)
    table = LoadTable.without(view, view.movable)
    staying = np.bincount(view.owners[~view.movable], minlength=len(view.brokers)).astype(np.float64)
    _assign(table, table.heaviest_first(view.movable), staying, view.owners)
    return Proposal(table.owners, _REASONS)


@compiled
def _assign(table: LoadTable, order: NDArray[np.int64], crowds: Floats, owners: Numbers) -> None:
    """`crowds` are the numbers of subscribers at the brokers. Who can go nowhere stays with its owner."""
    for subscriber in order:
        is_sent = table.demands[subscriber] > 0
        best, lowest, least_crowded = NOWHERE, np.inf, np.inf
        for broker in range(len(table.loads)):
            if may_go_to(table, subscriber, broker):
                load = added(table, subscriber, broker) + (table.loads[broker] if is_sent else 0.0)
                score, crowd = load / table.capacities[broker], crowds[broker] / table.capacities[broker]
                if score < lowest or (score == lowest and crowd < least_crowded):
                    best, lowest, least_crowded = broker, score, crowd
        if best == NOWHERE:
            best = owners[subscriber]
        join(table, subscriber, best)
        crowds[best] += 1
