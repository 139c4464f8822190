"""Coordinates: what they estimate, and what is no coordinate."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tocsin.coordinates.coordinate import (
    DIMENSIONS,
    MAX_MS,
    ORIGIN,
    Coordinate,
    check_round_trip_ms,
    estimate_ms,
)
from tocsin.errors import InvalidValue


def _at(*numbers: float, height_ms: float = 1.0, adjustment_ms: float = 0.0) -> Coordinate:
    return Coordinate((*numbers, *[0.0] * (DIMENSIONS - len(numbers))), height_ms, adjustment_ms)


def test_an_estimate_is_the_distance_with_both_heights_and_adjustments() -> None:
    one, other = _at(30, height_ms=2, adjustment_ms=-1.5), _at(0, 40, height_ms=3, adjustment_ms=0.5)
    assert estimate_ms(one, other) == estimate_ms(other, one) == 50 + 2 + 3 - 1


def test_adjustments_that_would_make_a_round_trip_negative_are_left_out() -> None:
    assert estimate_ms(_at(1, adjustment_ms=-50), _at(2)) == 1 + 1 + 1


def test_a_process_is_two_heights_from_itself_so_that_no_estimate_is_zero() -> None:
    assert estimate_ms(ORIGIN, ORIGIN) > 0


_HUGE = [math.nan, math.inf, -math.inf, MAX_MS * 1.001, -MAX_MS * 1.001, 1e308]


@pytest.mark.parametrize(
    "change",
    [
        {"vector": ()},
        {"vector": (0.0,) * (DIMENSIONS - 1)},
        {"vector": (0.0,) * (DIMENSIONS + 1)},
        *({"vector": (0.0,) * (DIMENSIONS - 1) + (one,)} for one in _HUGE),
        *({"height_ms": one} for one in [*_HUGE, 0.0, -1.0]),
        *({"adjustment_ms": one} for one in _HUGE),
        *({"error": one} for one in [math.nan, math.inf, -0.1, 1.6]),
    ],
)
def test_what_is_no_coordinate_is_refused_with_what_is_allowed(change: dict[str, Any]) -> None:
    """Not finite, too large, of another dimension, or without height."""
    with pytest.raises(InvalidValue, match="allowed"):
        replace(ORIGIN, **change)


@pytest.mark.parametrize("round_trip_ms", [math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, MAX_MS + 1, 1e308])
def test_what_is_no_round_trip_is_refused(round_trip_ms: float) -> None:
    with pytest.raises(InvalidValue, match="allowed"):
        check_round_trip_ms(round_trip_ms)


def test_a_rounded_coordinate_is_one_and_estimates_the_same_to_some_microseconds() -> None:
    one = Coordinate(tuple(math.pi * number for number in range(DIMENSIONS)), 0.0123456, -0.98765, 0.12345)
    assert estimate_ms(one.rounded(), ORIGIN) == pytest.approx(estimate_ms(one, ORIGIN), abs=0.01)
    assert replace(ORIGIN, height_ms=0.0100001).rounded().height_ms == ORIGIN.height_ms
