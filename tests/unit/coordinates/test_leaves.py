"""A leaf finds where it is from a few round trips."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest

from tocsin.coordinates.coordinate import DIMENSIONS, Coordinate, estimate_ms
from tocsin.coordinates.leaves import locate
from tocsin.errors import InvalidValue


def _drawn(rng: random.Random) -> Coordinate:
    """Somewhere on a plane of 200 ms."""
    return Coordinate((rng.uniform(-100, 100), rng.uniform(-100, 100), *[0.0] * (DIMENSIONS - 2)), rng.uniform(0.5, 5))


def test_six_round_trips_tell_the_others() -> None:
    """Half of the estimates to brokers that it has not measured are within 15%, over a hundred leaves."""
    rng = random.Random(1)
    errors = []
    for _ in range(100):
        brokers, here = [_drawn(rng) for _ in range(12)], _drawn(rng)
        true_ms = [math.dist(one.vector, here.vector) + one.height_ms + here.height_ms for one in brokers]
        found = locate(list(zip(brokers[:6], true_ms[:6], strict=True)), rng)
        errors += [
            abs(estimate_ms(found, one) - true) / true for one, true in zip(brokers[6:], true_ms[6:], strict=True)
        ]
    assert median(errors) < 0.15


def test_a_leaf_at_one_end_of_all_routes_is_found_too() -> None:
    """A mobile phone takes 60 ms more, whoever it measures: half of the estimates are within a tenth, all in a half."""
    rng = random.Random(2)
    errors = []
    for _ in range(20):
        brokers = [_drawn(rng) for _ in range(6)]
        true_ms = [math.hypot(*one.vector) + one.height_ms + 60.0 for one in brokers]
        found = locate(list(zip(brokers, true_ms, strict=True)), rng)
        errors += [abs(estimate_ms(found, one) - true) / true for one, true in zip(brokers, true_ms, strict=True)]
    assert median(errors) < 0.1
    assert max(errors) < 0.5


def test_what_is_no_round_trip_is_refused() -> None:
    with pytest.raises(InvalidValue):
        locate([(Coordinate(), math.nan)], random.Random(1))
