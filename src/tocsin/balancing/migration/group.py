"""Group migration: subscribers that share a subscription leave the most loaded broker together (pure).

A single subscriber that leaves frees little load if others at the broker hold the same subscriptions. A group is all
subscribers at the broker that hold one subscription: once they are gone, the broker need not fetch it, nor anything
else that only they held. Among the groups that are small for the load they free, and the heaviest subscriber that
validly moves alone, the policy moves the one with the largest gain per member, to the broker where it has that gain.

To the same cov it moves more subscribers than LDM does, by 0 to 12%, since members of groups are not the heaviest. But
the brokers then fetch less, so their highest load is lower; to LDM's highest load it takes as many moves or fewer.

A group's move is valid if the destination's new score is below the source's old one. So each move lowers the sorted
list of scores, and the loop ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.assignment import AssignmentView, Flags, Floats
from tocsin.balancing.compiled import compiled
from tocsin.balancing.load_table import NOWHERE, LoadTable, join, leave, may_go_to, mean_score, most_loaded, move
from tocsin.balancing.local_search import added_everywhere, cost_of
from tocsin.balancing.migration.one_by_one import MOVES_EACH, STRICTLY_BELOW, must_go_on
from tocsin.balancing.proposal import Goal, Proposal

_MAX_GROUP = 32
#: Groups that are examined for each move.
_CANDIDATES = 48
#: The number of squarings: the power is 8.
_SQUARINGS = 3
_ALONE, _TOGETHER = 0, 1
_REASONS = (
    "heavy, at the most loaded broker; the destination is the least loaded broker, with it",
    "leaves the most loaded broker together with subscribers that share a subscription with it",
)


def group(view: AssignmentView, goal: Goal) -> Proposal:
    table = LoadTable.of(view)
    why = np.zeros(len(view.subscribers), np.int8)
    limit = MOVES_EACH * len(view.subscribers) if goal.max_moves is None else goal.max_moves
    holder_offsets, holders = _holders(view)
    order = table.heaviest_first(table.worth_moving(view.movable))
    _migrate(table, order, view.movable, holder_offsets, holders, why, *goal.thresholds, limit)
    return Proposal(table.owners, _REASONS, why)


def _holders(view: AssignmentView) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The holders of each subscription: the inverse of the view's lists."""
    order = np.argsort(view.holds, kind="stable")
    subscribers = np.repeat(np.arange(len(view.subscribers)), np.diff(view.offsets))[order]
    offsets = np.zeros(len(view.subscriptions) + 1, np.int64)
    np.cumsum(np.bincount(view.holds, minlength=len(view.subscriptions)), out=offsets[1:])
    return offsets, subscribers


@compiled
def _migrate(
    table: LoadTable,
    order: NDArray[np.int64],
    movable: Flags,
    holder_offsets: NDArray[np.int64],
    holders: NDArray[np.int64],
    why: NDArray[np.int8],
    cov_at_most: float,
    mean_above: float,
    idle_below: float,
    limit: int,
) -> None:
    added = np.empty(len(table.loads))
    members = np.empty(_MAX_GROUP, np.int64)
    seen = np.full(len(table.rates), -1, np.int64)
    looks = 0
    moves = 0
    while moves < limit:
        if not must_go_on(table, cov_at_most, mean_above, idle_below):
            return
        source = most_loaded(table)
        most = min(_MAX_GROUP, limit - moves)
        best, destination, gain = NOWHERE, NOWHERE, 0.0
        for subscription in _promising(table, source, most):
            size = _members(table, subscription, source, movable, holder_offsets, holders, members, most)
            if size == 0:
                continue
            looks += 1
            to, each = _weigh(table, members[:size], source, added, seen, looks)
            if to != NOWHERE and each > gain:
                best, destination, gain = subscription, to, each
        mover, alone = _heaviest(table, order, source, added)
        if mover != NOWHERE:
            looks += 1
            members[0] = mover
            to, each = _weigh(table, members[:1], source, added, seen, looks)
            if to != NOWHERE and each >= gain:
                best, alone = NOWHERE, to
        if best != NOWHERE:
            size = _members(table, best, source, movable, holder_offsets, holders, members, most)
            for subscriber in members[:size]:
                move(table, subscriber, destination)
                why[subscriber] = _TOGETHER if size > 1 else _ALONE
            moves += size
            continue
        if mover == NOWHERE:
            return
        move(table, mover, alone)
        why[mover] = _ALONE
        moves += 1


@compiled
def _promising(table: LoadTable, source: int, most: int) -> NDArray[np.int64]:
    """The subscriptions with few holders at the source, compared with the load they cause; the best first."""
    found = np.empty(_CANDIDATES, np.int64)
    worths = np.zeros(_CANDIDATES)
    size = 0
    for subscription in range(len(table.rates)):
        count = table.holders[subscription, source]
        if not 0 < count <= most:
            continue
        worth = table.rates[subscription] / count
        if size == _CANDIDATES and worth <= worths[size - 1]:
            continue
        size = min(size + 1, _CANDIDATES)
        at = size - 1
        while at > 0 and worths[at - 1] < worth:
            found[at], worths[at] = found[at - 1], worths[at - 1]
            at -= 1
        found[at], worths[at] = subscription, worth
    return found[:size]


@compiled
def _members(
    table: LoadTable,
    subscription: int,
    source: int,
    movable: Flags,
    holder_offsets: NDArray[np.int64],
    holders: NDArray[np.int64],
    members: NDArray[np.int64],
    most: int,
) -> int:
    """Writes the holders at the source into `members`; returns how many. 0 if one has to stay or they are too many."""
    size = 0
    for at in range(holder_offsets[subscription], holder_offsets[subscription + 1]):
        subscriber = holders[at]
        if table.owners[subscriber] == source:
            if not movable[subscriber] or size == most:
                return 0
            members[size] = subscriber
            size += 1
    return size


@compiled
def _weigh(
    table: LoadTable, members: NDArray[np.int64], source: int, added: Floats, seen: NDArray[np.int64], look: int
) -> tuple[int, float]:
    """The group's best destination, and the gain per member; NOWHERE if there is no gain."""
    loads, capacities = table.loads, table.capacities
    began = loads[source]
    for subscriber in members:
        leave(table, subscriber)
    left = loads[source]
    added[:] = 0
    for subscriber in members:
        for broker in range(len(added)):
            added[broker] += table.demands[subscriber]
        for at in range(table.offsets[subscriber], table.offsets[subscriber + 1]):
            subscription = table.holds[at]
            if seen[subscription] != look:
                seen[subscription] = look
                for broker in range(len(added)):
                    if table.holders[subscription, broker] == 0:
                        added[broker] += table.rates[subscription]
    for subscriber in members:
        join(table, subscriber, source)
    # Restores the exact load: leaving and joining again must leave no rounding error.
    loads[source] = began
    scale = mean_score(table)
    capacity = capacities[source]
    saved = capacity * (cost_of(began / capacity / scale, _SQUARINGS) - cost_of(left / capacity / scale, _SQUARINGS))
    best, most = NOWHERE, 0.0
    for broker in range(len(loads)):
        capacity = capacities[broker]
        score = (loads[broker] + added[broker]) / capacity
        if broker == source or not table.takes[broker] or score >= began / capacities[source] * STRICTLY_BELOW:
            continue
        if table.within_reach.size and _barred(table, members, broker):
            continue
        cost = cost_of(score / scale, _SQUARINGS) - cost_of(loads[broker] / capacity / scale, _SQUARINGS)
        gain = (saved - capacity * cost) / len(members)
        if gain > most:
            best, most = broker, gain
    return best, most


@compiled
def _barred(table: LoadTable, members: NDArray[np.int64], broker: int) -> int:
    """How many of them may not go there."""
    count = 0
    for subscriber in members:
        if not may_go_to(table, subscriber, broker):
            count += 1
    return count


@compiled
def _heaviest(table: LoadTable, order: NDArray[np.int64], source: int, added: Floats) -> tuple[int, int]:
    """The heaviest subscriber at the source with a valid move, and the destination: the least resulting score."""
    limit = table.loads[source] / table.capacities[source] * STRICTLY_BELOW
    for subscriber in order:
        if table.owners[subscriber] != source:
            continue
        added_everywhere(table, subscriber, added)
        best, least = NOWHERE, limit
        for broker in range(len(added)):
            score = (table.loads[broker] + added[broker]) / table.capacities[broker]
            if broker != source and score < least and may_go_to(table, subscriber, broker):
                best, least = broker, score
        if best != NOWHERE:
            return subscriber, best
    return NOWHERE, NOWHERE
