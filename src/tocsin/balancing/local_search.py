"""Local search: moves one subscriber at a time to its best broker, until no move lowers the cost (pure).

The cost is the sum of capacity times score to a power. A low power rewards sharing, since each subscription that is
fetched once less lowers the cost; with a high power, only the most loaded brokers count. So the search goes from low
powers to high ones.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.assignment import Flags, Floats, Numbers
from tocsin.balancing.compiled import compiled
from tocsin.balancing.load_table import NOWHERE, LoadTable, added, may_go_to, mean_score, move

#: Numbers of squarings: the powers are 2, 8 and 32.
_SQUARINGS = (1, 3, 5)
_MAX_ROUNDS = 10
#: A round that gains less than this, both in the mean and in the highest score, is the last with its power.
_LEAST_PROGRESS = 0.001
#: Rounding errors must not count as gains.
_LEAST_GAIN = 1e-12
_UNLIMITED = int(np.iinfo(np.int64).max)


def search(table: LoadTable, movable: Flags, max_moves: int | None = None) -> Numbers:
    """The best owners found; changes the table. Never worse than at the start: the best of all rounds counts.

    Under a budget, the subscribers that gain most go first, some at a time.
    """
    order = table.heaviest_first(movable)
    best, lowest = table.owners.copy(), table.max_score
    left = _UNLIMITED if max_moves is None else max_moves
    if lowest <= 0 or left <= 0:
        return best
    for squarings in _SQUARINGS:
        for _ in range(_MAX_ROUNDS):
            if max_moves is not None:
                order = order[np.argsort(-_gains(table, order, squarings), kind="stable")]
            mean, highest = mean_score(table), table.max_score
            moved = _improve(table, order, squarings, left if max_moves is None else max(1, left // 4))
            left -= moved
            if table.max_score < lowest:
                best, lowest = table.owners.copy(), table.max_score
            has_progressed = max(1 - mean_score(table) / mean, 1 - table.max_score / highest) > _LEAST_PROGRESS
            if left <= 0:
                return best
            if not moved or not has_progressed:
                break
    return best


def best_of(table: LoadTable, wanted: Numbers, max_moves: int) -> Numbers:
    """The owners after at most `max_moves` of the moves to the `wanted` owners; changes the table.

    The moves that gain most go first, some at a time, and no move that lifts its destination to where its source was.
    """
    movers = np.flatnonzero(table.owners != wanted)
    left, squarings = max_moves, _SQUARINGS[1]
    while left > 0 and len(movers):
        gains = _gains_to(table, movers, wanted, squarings)
        order = movers[np.argsort(-gains, kind="stable")]
        moved = _move_to(table, order, wanted, squarings, max(1, left // 4))
        if not moved:
            break
        left -= moved
        movers = movers[table.owners[movers] != wanted[movers]]
    return table.owners


@compiled
def _gain_to(table: LoadTable, subscriber: int, broker: int, even: Floats, squarings: int) -> float:
    """By how much the subscriber lowers the cost by moving to the broker; 0 if it may not."""
    source, loads, capacities = table.owners[subscriber], table.loads, table.capacities
    left = loads[source] - removed_by(table, subscriber)
    reached = loads[broker] + added(table, subscriber, broker)
    if reached / capacities[broker] >= loads[source] / capacities[source] * (1 - _LEAST_GAIN):
        return 0.0
    saved = cost_of(loads[source] / even[source], squarings) - cost_of(left / even[source], squarings)
    paid = cost_of(reached / even[broker], squarings) - cost_of(loads[broker] / even[broker], squarings)
    return float(capacities[source] * saved - capacities[broker] * paid)


@compiled
def _gains_to(table: LoadTable, movers: NDArray[np.int64], wanted: Numbers, squarings: int) -> Floats:
    even = table.capacities * mean_score(table)
    gains = np.zeros(len(movers))
    if even[0] > 0:
        for at in range(len(movers)):
            gains[at] = _gain_to(table, movers[at], wanted[movers[at]], even, squarings)
    return gains


@compiled
def _move_to(table: LoadTable, order: NDArray[np.int64], wanted: Numbers, squarings: int, limit: int) -> int:
    """Makes the moves that still gain something, in this order; returns how many."""
    even = table.capacities * mean_score(table)
    moved = 0
    if even[0] <= 0:
        return moved
    for subscriber in order:
        if moved >= limit:
            break
        if _gain_to(table, subscriber, wanted[subscriber], even, squarings) > _LEAST_GAIN:
            move(table, subscriber, wanted[subscriber])
            moved += 1
    return moved


@compiled
def added_everywhere(table: LoadTable, subscriber: int, added: Floats) -> None:
    """Writes the load that the subscriber would add to each broker into `added`."""
    added[:] = table.demands[subscriber]
    for at in range(table.offsets[subscriber], table.offsets[subscriber + 1]):
        subscription = table.holds[at]
        rate = table.rates[subscription]
        held = table.up_to_two[subscription]
        for broker in range(len(added)):
            added[broker] += rate * (held[broker] == 0)


@compiled
def cost_of(score: float, squarings: int) -> float:
    for _ in range(squarings):
        score *= score
    return score


@compiled
def removed_by(table: LoadTable, subscriber: int) -> float:
    """The load that the subscriber's broker would lose without it."""
    owner = table.owners[subscriber]
    removed = table.demands[subscriber]
    for at in range(table.offsets[subscriber], table.offsets[subscriber + 1]):
        if table.up_to_two[table.holds[at], owner] == 1:
            removed += table.rates[table.holds[at]]
    return float(removed)


@compiled
def _best_move(
    table: LoadTable, subscriber: int, costs: Floats, even: Floats, room: Floats, squarings: int
) -> tuple[int, float]:
    """The broker where the subscriber lowers the cost most, and by how much; NOWHERE if no broker does.

    Each step is a plain loop over all brokers, so that the compiler handles several brokers at a time.
    """
    brokers, loads, capacities, source = len(table.loads), table.loads, table.capacities, table.owners[subscriber]
    added_everywhere(table, subscriber, room)
    for broker in range(brokers):
        room[broker] = (loads[broker] + room[broker]) / even[broker]
    for _ in range(squarings):
        for broker in range(brokers):
            room[broker] *= room[broker]
    for broker in range(brokers):
        room[broker] = costs[broker] - capacities[broker] * room[broker]
    left = (loads[source] - removed_by(table, subscriber)) / even[source]
    saved = costs[source] - capacities[source] * cost_of(left, squarings)
    best, most = NOWHERE, _LEAST_GAIN - saved
    for broker in range(brokers):
        if room[broker] > most and broker != source and may_go_to(table, subscriber, broker):
            best, most = broker, room[broker]
    return best, saved + most


@compiled
def _costs(table: LoadTable, even: Floats, squarings: int) -> Floats:
    costs = np.empty(len(table.loads))
    for broker in range(len(costs)):
        costs[broker] = table.capacities[broker] * cost_of(table.loads[broker] / even[broker], squarings)
    return costs


@compiled
def _gains(table: LoadTable, order: NDArray[np.int64], squarings: int) -> Floats:
    """The gain of each subscriber's best move, with the table as it is."""
    even = table.capacities * mean_score(table)
    gains = np.zeros(len(order))
    if even[0] > 0:
        costs, room = _costs(table, even, squarings), np.empty(len(even))
        for rank in range(len(order)):
            broker, gain = _best_move(table, order[rank], costs, even, room, squarings)
            gains[rank] = gain if broker != NOWHERE else 0.0
    return gains


@compiled
def _improve(table: LoadTable, order: NDArray[np.int64], squarings: int, limit: int) -> int:
    """Does one round; returns how many subscribers moved."""
    even = table.capacities * mean_score(table)
    moved = 0
    if even[0] <= 0:
        return moved
    costs, room = _costs(table, even, squarings), np.empty(len(even))
    for subscriber in order:
        if moved >= limit:
            break
        source = table.owners[subscriber]
        best, _ = _best_move(table, subscriber, costs, even, room, squarings)
        if best != NOWHERE:
            move(table, subscriber, best)
            costs[source] = table.capacities[source] * cost_of(table.loads[source] / even[source], squarings)
            costs[best] = table.capacities[best] * cost_of(table.loads[best] / even[best], squarings)
            moved += 1
    return moved
