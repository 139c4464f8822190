"""The load model, updated with each move (pure).

A broker's incoming load is the sum of the rates of the distinct subscriptions that its subscribers hold; its outgoing
load is the sum of the rates that its connected subscribers are sent. Moving a subscriber takes one step for each of its
subscriptions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.assignment import AssignmentView, Flags, Floats, Numbers, Offsets
from tocsin.balancing.compiled import compiled

#: Not at any broker yet.
NOWHERE = -1


class LoadTable(NamedTuple):
    """Arrays for compiled loops. The ones up to `demands` are never written to; the others change with every move."""

    offsets: Offsets
    holds: Numbers
    rates: Floats
    capacities: Floats
    takes: Flags
    #: within_reach[i, j]: whether subscriber i may be at broker j; empty if there is no limit.
    within_reach: Flags
    #: The rate that each subscriber is sent: 0 if it is not connected.
    demands: Floats
    owners: Numbers
    #: holders[k, j]: how many of broker j's subscribers hold subscription k.
    holders: NDArray[np.int32]
    #: The same, capped at 2, which is enough for a search, and so small that most of it stays in the cache.
    up_to_two: NDArray[np.uint8]
    loads: Floats

    @staticmethod
    def of(view: AssignmentView, owners: Numbers | None = None) -> LoadTable:
        """The table for the view's own owners, or for others."""
        table = LoadTable(
            view.offsets,
            view.holds,
            view.rates,
            view.capacities,
            view.takes,
            view.within_reach,
            demands_of(view),
            (view.owners if owners is None else owners).astype(np.int32, copy=True),
            np.zeros((len(view.subscriptions), len(view.brokers)), np.int32),
            np.zeros((len(view.subscriptions), len(view.brokers)), np.uint8),
            np.zeros(len(view.brokers)),
        )
        _settle(table)
        return table

    @staticmethod
    def without(view: AssignmentView, whom: Flags) -> LoadTable:
        """The table with the subscribers `whom` at no broker yet, and the others where they are."""
        return LoadTable.of(view, np.where(whom, NOWHERE, view.owners))

    @property
    def scores(self) -> Floats:
        return self.loads / self.capacities

    @property
    def max_score(self) -> float:
        return float(self.scores.max())

    def worth_moving(self, movable: Flags) -> Flags:
        """The movable subscribers that are sent something. Moving others changes no load."""
        return movable & (self.demands > 0)

    def heaviest_first(self, movable: Flags) -> NDArray[np.int64]:
        """The movable subscribers by falling demand; of equal ones, the first by name."""
        numbers = np.flatnonzero(movable)
        return numbers[np.argsort(-self.demands[numbers], kind="stable")]


def demands_of(view: AssignmentView) -> Floats:
    return _demands(view.offsets, view.holds, view.rates, view.connected)


@compiled
def _demands(offsets: Offsets, holds: Numbers, rates: Floats, connected: Flags) -> Floats:
    demands = np.zeros(len(offsets) - 1)
    for subscriber in range(len(demands)):
        if connected[subscriber]:
            for at in range(offsets[subscriber], offsets[subscriber + 1]):
                demands[subscriber] += rates[holds[at]]
    return demands


@compiled
def join(table: LoadTable, subscriber: int, broker: int) -> None:
    """Adds a subscriber that is at no broker to one."""
    load = table.demands[subscriber]
    for at in range(table.offsets[subscriber], table.offsets[subscriber + 1]):
        subscription = table.holds[at]
        if table.holders[subscription, broker] == 0:
            load += table.rates[subscription]
        table.holders[subscription, broker] += 1
        table.up_to_two[subscription, broker] = min(table.holders[subscription, broker], 2)
    table.loads[broker] += load
    table.owners[subscriber] = broker


@compiled
def leave(table: LoadTable, subscriber: int) -> None:
    broker = table.owners[subscriber]
    load = table.demands[subscriber]
    for at in range(table.offsets[subscriber], table.offsets[subscriber + 1]):
        subscription = table.holds[at]
        table.holders[subscription, broker] -= 1
        if table.holders[subscription, broker] == 0:
            load += table.rates[subscription]
        table.up_to_two[subscription, broker] = min(table.holders[subscription, broker], 2)
    table.loads[broker] -= load
    table.owners[subscriber] = NOWHERE


@compiled
def move(table: LoadTable, subscriber: int, broker: int) -> None:
    leave(table, subscriber)
    join(table, subscriber, broker)


@compiled
def added(table: LoadTable, subscriber: int, broker: int) -> float:
    """The load that the subscriber would add to a broker where it is not."""
    load = table.demands[subscriber]
    for at in range(table.offsets[subscriber], table.offsets[subscriber + 1]):
        if table.holders[table.holds[at], broker] == 0:
            load += table.rates[table.holds[at]]
    return float(load)


@compiled
def most_loaded(table: LoadTable) -> int:
    """The broker with the highest score; the first by name of equal ones."""
    best = 0
    for broker in range(1, len(table.loads)):
        if table.loads[broker] / table.capacities[broker] > table.loads[best] / table.capacities[best]:
            best = broker
    return best


@compiled
def least_loaded(table: LoadTable) -> int:
    """The broker with the lowest score among those that take subscribers; the first by name of equal ones."""
    best = NOWHERE
    for broker in range(len(table.loads)):
        if table.takes[broker] and (
            best == NOWHERE
            or table.loads[broker] / table.capacities[broker] < table.loads[best] / table.capacities[best]
        ):
            best = broker
    return best


@compiled
def may_go_to(table: LoadTable, subscriber: int, broker: int) -> bool:
    """Whether the broker takes subscribers, and is within reach of this one."""
    return table.takes[broker] and (table.within_reach.size == 0 or table.within_reach[subscriber, broker])


@compiled
def least_loaded_for(table: LoadTable, subscriber: int) -> int:
    """The same among those that the subscriber may go to."""
    best = NOWHERE
    for broker in range(len(table.loads)):
        if may_go_to(table, subscriber, broker) and (
            best == NOWHERE
            or table.loads[broker] / table.capacities[broker] < table.loads[best] / table.capacities[best]
        ):
            best = broker
    return best


@compiled
def takers_mean(table: LoadTable) -> float:
    """The mean score of the brokers that take subscribers; infinite if there are none."""
    total, takers = 0.0, 0
    for broker in range(len(table.loads)):
        if table.takes[broker]:
            total += table.loads[broker] / table.capacities[broker]
            takers += 1
    return total / takers if takers else np.inf


@compiled
def compared(table: LoadTable) -> tuple[float, float]:
    """Mean and standard deviation of the scores that a plan should even out: see `evenness.compared`."""
    floor = takers_mean(table)
    total, squares, brokers = 0.0, 0.0, 0
    for broker in range(len(table.loads)):
        score = table.loads[broker] / table.capacities[broker]
        if table.takes[broker] or score > floor:
            total += score
            brokers += 1
    if brokers == 0:
        return 0.0, 0.0
    mean = total / brokers
    for broker in range(len(table.loads)):
        score = table.loads[broker] / table.capacities[broker]
        if table.takes[broker] or score > floor:
            squares += (score - mean) ** 2
    return mean, math.sqrt(squares / brokers)


@compiled
def mean_score(table: LoadTable) -> float:
    """Of all brokers, whether they take subscribers or not."""
    total = 0.0
    for broker in range(len(table.loads)):
        total += table.loads[broker] / table.capacities[broker]
    return total / len(table.loads)


@compiled
def _settle(table: LoadTable) -> None:
    for subscriber in range(len(table.owners)):
        if table.owners[subscriber] != NOWHERE:
            join(table, subscriber, table.owners[subscriber])
