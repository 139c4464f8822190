"""Random assignments, for tests of balancing policies."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tocsin.balancing.assignment import AssignmentView


def random_assignment(
    seed: int, *, subscribers: int, subscriptions: int, brokers: int, each: int, capacities: Collection[float] = ()
) -> AssignmentView:
    """A random assignment: any subscribers at any brokers, with any subscriptions."""
    draw = np.random.default_rng(seed)
    lists = [np.unique(draw.integers(subscriptions, size=draw.integers(1, each + 1))) for _ in range(subscribers)]
    offsets = np.zeros(subscribers + 1, np.int64)
    np.cumsum([len(one) for one in lists], out=offsets[1:])
    return AssignmentView(
        tuple(f"b{number:03}" for number in range(brokers)),
        np.array(list(capacities) or [1.0] * brokers, np.float64),
        np.ones(brokers, np.bool_),
        tuple(f"s{number:06}" for number in range(subscribers)),
        draw.integers(brokers, size=subscribers).astype(np.int32),
        np.ones(subscribers, np.bool_),
        np.ones(subscribers, np.bool_),
        tuple(f"k{number:06}" for number in range(subscriptions)),
        draw.lognormal(0.0, 1.0, subscriptions),
        offsets,
        np.concatenate(lists).astype(np.int32) if subscribers else np.zeros(0, np.int32),
    )
