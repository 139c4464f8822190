"""Greedy shuffle: assigns all subscribers anew, heaviest first, to the broker that is the least loaded so far (pure).

Subscribers that can't be moved stay, and their brokers start with their load. So do subscribers that are sent nothing:
otherwise all of them would go to one broker, which would stay the least loaded. Of equal brokers the first by name is
taken. Brokers that are out of a subscriber's reach are left out.

A broker that takes nobody keeps its subscribers if its score is no higher than the mean of the others. If it is higher,
they are assigned anew, and their own broker is one of those to choose from.

Under a budget, some of these moves are made: those that gain most, and none that would raise the highest score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.assignment import AssignmentView, Numbers
from tocsin.balancing.compiled import compiled
from tocsin.balancing.load_table import NOWHERE, LoadTable, join, least_loaded_for, takers_mean
from tocsin.balancing.local_search import best_of
from tocsin.balancing.proposal import Goal, Proposal

_REASONS = ("all subscribers were assigned anew, heaviest first, to the least loaded broker",)


def gsh(view: AssignmentView, goal: Goal) -> Proposal:
    if not view.takes.any():
        return Proposal(view.owners, _REASONS)
    before = LoadTable.of(view)
    stays = ~view.takes & (before.scores <= takers_mean(before))
    weighty = before.worth_moving(view.movable & ~stays[view.owners])
    table = LoadTable.without(view, weighty)
    _assign(table, table.heaviest_first(weighty), view.owners)
    if goal.max_moves is None:
        return Proposal(table.owners, _REASONS)
    is_within = np.count_nonzero(table.owners != view.owners) <= goal.max_moves
    if is_within and table.max_score <= before.max_score:
        return Proposal(table.owners, _REASONS)
    return Proposal(best_of(before, table.owners, goal.max_moves), _REASONS)


@compiled
def _assign(table: LoadTable, order: NDArray[np.int64], owners: Numbers) -> None:
    for subscriber in order:
        best, own = least_loaded_for(table, subscriber), owners[subscriber]
        if best == NOWHERE or (
            not table.takes[own]
            and table.loads[own] / table.capacities[own] <= table.loads[best] / table.capacities[best]
        ):
            best = own
        join(table, subscriber, best)
