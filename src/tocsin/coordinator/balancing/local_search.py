"""Moving subscribers one at a time to where they even out most, until nobody gains by moving (pure).

What falls with every move is the sum of capacity times score to a power: with a low power it rewards sharing, since
each subscription that is fetched once less lowers it; with a high one, the most loaded brokers alone count. So one goes
from low to high.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tocsin.coordinator.balancing.assignment import Flags, Floats, Numbers
from tocsin.coordinator.balancing.compiled import compiled
from tocsin.coordinator.balancing.load_table import NOWHERE, LoadTable, mean_score, move

#: Powers of 2, 8 and 32: so many squarings.
_SQUARINGS = (1, 3, 5)
_MAX_ROUNDS = 10
#: A round in which fewer than one of so many moved was the last.
_FEW = 500
#: Rounding must not pass for progress.
_LEAST_GAIN = 1e-12
_UNLIMITED = int(np.iinfo(np.int64).max)


def search(table: LoadTable, movable: Flags, max_moves: int | None = None) -> Numbers:
    """Where everybody should be; the table is worked on. Never worse than at the start: of all rounds, the best counts.

    Under a budget, those who gain most go first, some at a time.
    """
    order = table.heaviest_first(movable)
    best, lowest = table.owners.copy(), table.max_score
    left = _UNLIMITED if max_moves is None else max_moves
    for squarings in _SQUARINGS:
        for _ in range(_MAX_ROUNDS):
            if max_moves is not None:
                order = order[np.argsort(-_gains(table, order, squarings), kind="stable")]
            moved = _improve(table, order, squarings, min(left, max(1, left // 4) if max_moves is not None else left))
            left -= moved
            if table.max_score < lowest:
                best, lowest = table.owners.copy(), table.max_score
            if moved * _FEW <= len(order) or left <= 0:
                break
    return best


@compiled
def added_everywhere(table: LoadTable, subscriber: int, added: Floats) -> None:
    """What the subscriber would add to each broker, into `added`."""
    added[:] = table.demands[subscriber]
    for at in range(table.offsets[subscriber], table.offsets[subscriber + 1]):
        subscription = table.holds[at]
        rate = table.rates[subscription]
        row = table.holders[subscription]
        for broker in range(len(added)):
            added[broker] += rate if row[broker] == 0 else 0.0


@compiled
def cost_of(score: float, squarings: int) -> float:
    for _ in range(squarings):
        score *= score
    return score


@compiled
def removed_by(table: LoadTable, subscriber: int) -> float:
    """What the subscriber's broker would be rid of without it."""
    owner = table.owners[subscriber]
    removed = table.demands[subscriber]
    for at in range(table.offsets[subscriber], table.offsets[subscriber + 1]):
        if table.holders[table.holds[at], owner] == 1:
            removed += table.rates[table.holds[at]]
    return float(removed)


@compiled
def _best_move(
    table: LoadTable, subscriber: int, costs: Floats, added: Floats, scale: float, squarings: int
) -> tuple[int, float]:
    """Where the costs fall most if the subscriber goes there, and by how much; NOWHERE if they fall nowhere."""
    capacities, loads, source = table.capacities, table.loads, table.owners[subscriber]
    added_everywhere(table, subscriber, added)
    left = (loads[source] - removed_by(table, subscriber)) / capacities[source] / scale
    saved = costs[source] - capacities[source] * cost_of(left, squarings)
    best, most = NOWHERE, _LEAST_GAIN
    for broker in range(len(loads)):
        cost = capacities[broker] * cost_of((loads[broker] + added[broker]) / capacities[broker] / scale, squarings)
        gain = saved + costs[broker] - cost
        if gain > most and table.takes[broker] and broker != source:
            best, most = broker, gain
    return best, most


@compiled
def _costs(table: LoadTable, scale: float, squarings: int) -> Floats:
    costs = np.empty(len(table.loads))
    for broker in range(len(costs)):
        capacity = table.capacities[broker]
        costs[broker] = capacity * cost_of(table.loads[broker] / capacity / scale, squarings)
    return costs


@compiled
def _gains(table: LoadTable, order: NDArray[np.int64], squarings: int) -> Floats:
    """What each would gain by its best move, as things are."""
    scale = mean_score(table)
    gains = np.zeros(len(order))
    if scale > 0:
        costs, added = _costs(table, scale, squarings), np.empty(len(table.loads))
        for rank in range(len(order)):
            broker, gain = _best_move(table, order[rank], costs, added, scale, squarings)
            gains[rank] = gain if broker != NOWHERE else 0.0
    return gains


@compiled
def _improve(table: LoadTable, order: NDArray[np.int64], squarings: int, limit: int) -> int:
    """One round; how many moved."""
    scale = mean_score(table)
    moved = 0
    if scale <= 0:
        return moved
    costs, added = _costs(table, scale, squarings), np.empty(len(table.loads))
    for subscriber in order:
        if moved >= limit:
            break
        source = table.owners[subscriber]
        best, _ = _best_move(table, subscriber, costs, added, scale, squarings)
        if best != NOWHERE:
            move(table, subscriber, best)
            for broker in np.array([source, best]):
                capacity = table.capacities[broker]
                costs[broker] = capacity * cost_of(table.loads[broker] / capacity / scale, squarings)
            moved += 1
    return moved
