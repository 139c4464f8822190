"""LDM and SDM, load-based and similarity-based dynamic migration: Algorithm 1 of the multistage paper (pure).

While the scores are uneven: among the most loaded broker's subscribers, heaviest first, move the first that has a valid
move. The pseudocode leaves some points open; they are decided as follows:

1.  A move is valid if the destination's new score is *below* the source's old one. With "no higher", two brokers could
    pass a subscriber to and fro for ever. With "below", each move lowers the sorted list of scores, so no assignment
    comes twice.
2.  If no subscriber at the most loaded broker has a valid move, the loop ends: nothing would change.
3.  Of equal brokers the first by name is taken; of equal subscribers too.
4.  A subscriber may be moved more than once; the plan has the net effect.
5.  SDM looks among the brokers below the mean that take subscribers; LDM among all that take subscribers.
6.  A subscriber that is sent nothing is not moved: no load would change.
7.  A broker that is out of a subscriber's reach counts as one that does not take it.
8.  The most loaded broker may be one that takes nobody. `evenness` says which brokers are compared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.assignment import AssignmentView, Numbers
from tocsin.balancing.compiled import compiled
from tocsin.balancing.load_table import (
    NOWHERE,
    LoadTable,
    added,
    compared,
    least_loaded,
    least_loaded_for,
    may_go_to,
    most_loaded,
    move,
)
from tocsin.balancing.proposal import Goal, Proposal

#: Rounding errors must not count as gains.
STRICTLY_BELOW = 1 - 1e-12
#: Long before this many moves for each subscriber, the scores are even or nothing moves any more.
MOVES_EACH = 10
_BY_LOAD = "among the heaviest at the most loaded broker; the destination was the least loaded"
_BY_SIMILARITY = "among the heaviest at the most loaded broker; the destination, below the mean, shared most with it"


def ldm(view: AssignmentView, goal: Goal) -> Proposal:
    """Off the most loaded broker, to the least loaded."""
    return Proposal(_migrated(view, goal, by_similarity=False), (_BY_LOAD,))


def sdm(view: AssignmentView, goal: Goal) -> Proposal:
    """Off the most loaded broker, to the one below the mean that shares most."""
    return Proposal(_migrated(view, goal, by_similarity=True), (_BY_SIMILARITY,))


def _migrated(view: AssignmentView, goal: Goal, *, by_similarity: bool) -> Numbers:
    """The owners in the end."""
    table = LoadTable.of(view)
    limit = MOVES_EACH * len(view.subscribers) if goal.max_moves is None else goal.max_moves
    order = table.heaviest_first(table.worth_moving(view.movable))
    _migrate(table, order, by_similarity, *goal.thresholds, limit)
    return table.owners


@compiled
def must_go_on(table: LoadTable, cov_at_most: float, mean_above: float, idle_below: float) -> bool:
    """Whether the goal has yet to be reached."""
    mean, deviation = compared(table)
    if mean <= mean_above or mean <= 0:
        return False
    for broker in range(len(table.loads)):
        if table.takes[broker] and table.loads[broker] / table.capacities[broker] < idle_below * mean:
            return True
    return deviation > cov_at_most * mean


@compiled
def _migrate(
    table: LoadTable,
    order: NDArray[np.int64],
    by_similarity: bool,
    cov_at_most: float,
    mean_above: float,
    idle_below: float,
    limit: int,
) -> None:
    ranks = np.zeros(len(table.owners), np.int64)
    for rank in range(len(order)):
        ranks[order[rank]] = rank
    # For each broker, a rank below which it has no movable subscriber: the search for its heaviest begins there.
    first = np.zeros(len(table.loads), np.int64)
    for _ in range(limit):
        if not must_go_on(table, cov_at_most, mean_above, idle_below):
            return
        source, least = most_loaded(table), least_loaded(table)
        began = table.loads[source] / table.capacities[source]
        while first[source] < len(order) and table.owners[order[first[source]]] != source:
            first[source] += 1
        mover, destination = NOWHERE, NOWHERE
        for rank in range(first[source], len(order)):
            subscriber = order[rank]
            if table.owners[subscriber] != source:
                continue
            if by_similarity:
                candidate = _most_similar(table, subscriber)
            else:
                candidate = least if table.within_reach.size == 0 else least_loaded_for(table, subscriber)
            if candidate in (NOWHERE, source):
                continue
            load = table.loads[candidate] + added(table, subscriber, candidate)
            if load / table.capacities[candidate] < began * STRICTLY_BELOW:
                mover, destination = subscriber, candidate
                break
        if mover == NOWHERE:
            return
        move(table, mover, destination)
        first[destination] = min(first[destination], ranks[mover])


@compiled
def _most_similar(table: LoadTable, subscriber: int) -> int:
    """The broker below the mean that already fetches most of the subscriber's subscriptions."""
    mean, _ = compared(table)
    best, most = NOWHERE, -1.0
    for broker in range(len(table.loads)):
        if not may_go_to(table, subscriber, broker) or table.loads[broker] / table.capacities[broker] >= mean:
            continue
        similarity = 0.0
        for at in range(table.offsets[subscriber], table.offsets[subscriber + 1]):
            if table.holders[table.holds[at], broker] > 0:
                similarity += table.rates[table.holds[at]]
        if similarity > most:
            best, most = broker, similarity
    return best
