"""Sharing-aware shuffle that begins from a partition of the hypergraph of holds, by Mt-KaHyPar (an extra).

Subscribers are the vertices, weighted with the rates they are sent; subscriptions are the nets, weighted with their
rates. The cuts of each net, times its weight, are the load that brokers fetch more than once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.assignment import AssignmentView, Floats, Numbers
from tocsin.balancing.load_table import LoadTable, demands_of
from tocsin.balancing.local_search import search
from tocsin.balancing.proposal import Goal, Proposal
from tocsin.balancing.shuffle.sharing import REASONS, better_of_greedy
from tocsin.errors import InvalidValue

#: Weights are scaled to whole numbers up to this.
_LARGEST_WEIGHT = 10_000
#: How much heavier than its share a part may be.
_IMBALANCE = 0.03
#: A subscription with more holders per broker than this is held everywhere, whatever the partition: it is left out.
_HELD_EVERYWHERE = 8
_THREADS = 2


def sharing_hypergraph(view: AssignmentView, goal: Goal) -> Proposal:
    """Never worse than a greedy shuffle. If brokers are closed or subscribers are few, it works like `sharing`."""
    if goal.max_moves is not None:
        raise InvalidValue("sharing-hypergraph assigns all subscribers anew and takes no max_moves; use sharing")
    movable = np.flatnonzero(view.movable)
    owners = view.owners.copy()
    if len(view.brokers) > 1 and len(movable) >= 2 * len(view.brokers) and view.takes.all():
        nets, rates = _nets(view, movable)
        if nets:
            owners[movable] = _named(view, movable, _parts(view, movable, nets, rates))
            owners = view.kept_within_reach(owners)
    return Proposal(better_of_greedy(view, search(LoadTable.of(view, owners), view.movable), goal), REASONS)


@cache
def _library() -> Any:
    """The library, initialised once per process."""
    try:
        import mtkahypar
    except ImportError:
        raise InvalidValue(
            "sharing-hypergraph needs Mt-KaHyPar, which is not installed; pip install 'tocsin[hypergraph]'"
        ) from None
    return mtkahypar, mtkahypar.initialize(_THREADS, False)


def _parts(view: AssignmentView, movable: NDArray[np.int64], nets: list[list[int]], rates: Floats) -> Numbers:
    """One part per broker, in the order of brokers, of sizes that suit their capacities."""
    mtkahypar, initializer = _library()
    mtkahypar.set_seed(1)
    context = initializer.context_from_preset(mtkahypar.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(len(view.brokers), _IMBALANCE, mtkahypar.Objective.KM1)
    context.logging = False
    weights = _whole(demands_of(view)[movable])
    shares = view.capacities / view.capacities.sum()
    if not np.all(view.capacities == view.capacities[0]):
        most = np.ceil(weights.sum() * shares * (1 + _IMBALANCE)) + weights.max()
        context.set_individual_target_block_weights(most.astype(np.int64).tolist())
    graph = initializer.create_hypergraph(
        context, len(movable), len(nets), nets, weights.tolist(), _whole(rates).tolist()
    )
    return np.asarray(graph.partition(context).get_partition(), np.int32)


def _nets(view: AssignmentView, movable: NDArray[np.int64]) -> tuple[list[list[int]], Floats]:
    """The holders and rates of subscriptions that can make a difference. A net with one holder can't be cut."""
    vertex_of = np.full(len(view.subscribers), -1, np.int64)
    vertex_of[movable] = np.arange(len(movable))
    vertices = np.repeat(vertex_of, np.diff(view.offsets))
    is_movable = vertices >= 0
    vertices, subscriptions = vertices[is_movable], view.holds[is_movable]
    order = np.argsort(subscriptions, kind="stable")
    counts = np.bincount(subscriptions, minlength=len(view.subscriptions))
    pins = np.split(vertices[order], np.cumsum(counts)[:-1])
    shared = np.flatnonzero((counts > 1) & (counts <= _HELD_EVERYWHERE * len(view.brokers)))
    return [pins[one].tolist() for one in shared], view.rates[shared]


def _named(view: AssignmentView, movable: NDArray[np.int64], parts: Numbers) -> Numbers:
    """Assigns parts to brokers. Among equal brokers, a part goes to the broker that has most of it already."""
    brokers = len(view.brokers)
    overlap = np.bincount(parts.astype(np.int64) * brokers + view.owners[movable], minlength=brokers * brokers)
    name_of = np.full(brokers, -1, np.int32)
    taken = np.zeros(brokers, np.bool_)
    for pair in np.argsort(-overlap, kind="stable").tolist():
        part, broker = divmod(pair, brokers)
        if name_of[part] < 0 and not taken[broker] and view.capacities[part] == view.capacities[broker]:
            name_of[part], taken[broker] = broker, True
    return name_of[parts]


def _whole(values: Floats) -> NDArray[np.int64]:
    """The values scaled to whole numbers from 1 on."""
    largest = float(values.max()) if len(values) else 0.0
    if largest <= 0:
        return np.ones(len(values), np.int64)
    return np.maximum(1, np.round(values / largest * _LARGEST_WEIGHT)).astype(np.int64)
