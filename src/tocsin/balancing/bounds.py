"""Lower bounds of the highest score, which no assignment beats (pure).

With D the demand of all, r the rate of a subscription, C the capacities, and R the rate that one subscriber is sent:

1.  Everything must be sent, and every subscription fetched at least once: (D + Σr) / ΣC.
2.  A broker that takes a subscriber fetches and sends all of its R: 2·R / max C.
3.  Of B + 1 subscribers at B brokers, two share a broker. Equal brokers only: 2·R₍B₎ + R₍B+1₎, by falling R.
4.  If no score exceeds T, a broker that holds subscription x fetches at least the m of the lightest of x's subscribers,
    so it can send x's subscribers no more than T·C - m: x is fetched by ⌈D_x / (T·C - m_x)⌉ brokers or more, and the
    smallest T for which all of that fits into T·ΣC is a bound.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from tocsin.balancing.assignment import AssignmentView, Floats
from tocsin.balancing.load_table import LoadTable, demands_of
from tocsin.errors import InvalidValue

_HALVINGS = 60
_MOST_TRIED = 1_000_000


def optimum(view: AssignmentView) -> float:
    """The lowest possible highest score, found by trying every assignment: for small networks."""
    brokers, subscribers = np.flatnonzero(view.takes).tolist(), np.flatnonzero(view.movable)
    if len(brokers) ** len(subscribers) > _MOST_TRIED:
        raise InvalidValue(
            f"{len(subscribers)} subscribers at {len(brokers)} brokers are too many to try all assignments"
        )
    lowest = LoadTable.of(view).max_score
    owners = view.owners.copy()
    for chosen in product(brokers, repeat=len(subscribers)):
        owners[subscribers] = chosen
        lowest = min(lowest, LoadTable.of(view, owners).max_score)
    return lowest


def lower_bound(view: AssignmentView) -> float:
    """The highest of the bounds, as a score."""
    demands = demands_of(view)
    held = np.zeros(len(view.subscriptions), np.bool_)
    held[view.holds] = True
    fetched_once = float(view.rates[held].sum())
    total_capacity, largest = float(view.capacities.sum()), float(view.capacities.max())
    bound = (float(demands.sum()) + fetched_once) / total_capacity
    if not len(demands):
        return bound
    bound = max(bound, 2 * float(demands.max()) / largest)
    brokers = len(view.brokers)
    if len(demands) > brokers and bool(np.all(view.capacities == largest)):
        falling = -np.sort(-demands)
        bound = max(bound, float(2 * falling[brokers - 1] + falling[brokers]) / largest)
    return max(bound, _by_spreading(view, demands, bound))


def _by_spreading(view: AssignmentView, demands: Floats, least: float) -> float:
    """Bound 4, by bisection between `least` and a score that is surely enough."""
    subscriber_of = np.repeat(np.arange(len(demands)), np.diff(view.offsets))
    is_sent = view.connected[subscriber_of]
    subscriptions, senders = view.holds[is_sent], subscriber_of[is_sent]
    if not len(subscriptions):
        return least
    demand_of_holders = np.bincount(subscriptions, demands[senders], minlength=len(view.subscriptions))
    lightest = np.full(len(view.subscriptions), np.inf)
    np.minimum.at(lightest, subscriptions, demands[senders])
    held = np.zeros(len(view.subscriptions), np.bool_)
    held[view.holds] = True
    unsent = held & ~np.isfinite(lightest)
    fixed = float(demands.sum()) + float(view.rates[unsent].sum())
    spread = np.flatnonzero(np.isfinite(lightest))
    rates, wanted, minimum = view.rates[spread], demand_of_holders[spread], lightest[spread]
    total_capacity, largest = float(view.capacities.sum()), float(view.capacities.max())

    def fits(score: float) -> bool:
        room = score * largest - minimum
        if np.any((room <= 0) & (wanted > 0)):
            return False
        # Rounding must not add a broker that is not needed.
        brokers = np.maximum(1.0, np.ceil(wanted / np.where(room > 0, room, 1.0) - 1e-9))
        return bool(fixed + float((rates * brokers).sum()) <= score * total_capacity)

    low, high = least, max(least, 1e-300)
    while not fits(high):
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return low
