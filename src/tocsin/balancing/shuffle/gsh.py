"""Greedy shuffle: everybody anew, heaviest first, to the broker that is the least loaded so far (pure).

Those who can't be moved stay, and their brokers begin with them; so do those who are sent nothing: taken by the letter,
all of them would crowd at one broker, which is the least loaded still. Of equal brokers the first by name is taken.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.assignment import AssignmentView
from tocsin.balancing.compiled import compiled
from tocsin.balancing.load_table import LoadTable, demands_of, join, least_loaded
from tocsin.balancing.proposal import Goal, Proposal

_REASONS = ("everybody was assigned anew, heaviest first, to the least loaded broker",)


def gsh(view: AssignmentView, _goal: Goal) -> Proposal:
    """It moves whom it must: it knows no budget."""
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
