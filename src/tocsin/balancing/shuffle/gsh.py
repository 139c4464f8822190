"""Greedy shuffle: assigns all subscribers anew, heaviest first, to the broker that is the least loaded so far (pure).

Subscribers that can't be moved stay, and their brokers start with their load. So do subscribers that are sent nothing:
otherwise all of them would go to one broker, which would stay the least loaded. Of equal brokers the first by name is
taken.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.assignment import AssignmentView
from tocsin.balancing.compiled import compiled
from tocsin.balancing.load_table import LoadTable, demands_of, join, least_loaded
from tocsin.balancing.proposal import Goal, Proposal

_REASONS = ("all subscribers were assigned anew, heaviest first, to the least loaded broker",)


def gsh(view: AssignmentView, _goal: Goal) -> Proposal:
    """It has no budget: it moves as many subscribers as it needs to."""
    if not view.takes.any():
        return Proposal(view.owners, _REASONS)
    weighty = view.movable & (demands_of(view) > 0)
    table = LoadTable.without(view, weighty)
    _assign(table, table.heaviest_first(weighty))
    return Proposal(table.owners, _REASONS)


@compiled
def _assign(table: LoadTable, order: NDArray[np.int64]) -> None:
    for subscriber in order:
        join(table, subscriber, least_loaded(table))
