"""Vivaldi: who moves where by a measurement, what one measurement can do at most, and what is forgotten."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from tocsin.coordinates.coordinate import DIMENSIONS, MAX_ERROR, ORIGIN, Coordinate, estimate_ms
from tocsin.coordinates.vivaldi import LONGEST_STEP_MS, Vivaldi
from tocsin.errors import InvalidValue

_FAR = Coordinate((100.0, *[0.0] * (DIMENSIONS - 1)), 1.0, 0.0, 0.1)


def _vivaldi(begins_at: Coordinate = ORIGIN) -> Vivaldi:
    return Vivaldi(random.Random(1), begins_at)


def test_two_at_the_same_point_part_in_a_direction_of_chance() -> None:
    """The direction comes from the argument: the same seed gives the same coordinate, another one another."""
    one, same, other = Vivaldi(random.Random(1)), Vivaldi(random.Random(1)), Vivaldi(random.Random(2))
    for vivaldi in (one, same, other):
        vivaldi.measured("b", ORIGIN, 20.0)
    assert math.hypot(*one.coordinate.vector) > 1
    assert one.coordinate == same.coordinate
    assert one.coordinate != other.coordinate


def test_it_comes_nearer_if_the_round_trip_is_shorter_than_expected_and_goes_away_if_it_is_longer() -> None:
    begin = Coordinate((20.0, *[0.0] * (DIMENSIONS - 1)), 1.0, 0.0, 0.5)
    for round_trip_ms in (40.0, 200.0):
        vivaldi = _vivaldi(begin)
        before_ms = estimate_ms(vivaldi.coordinate, _FAR)
        vivaldi.measured("far", _FAR, round_trip_ms)
        after_ms = estimate_ms(vivaldi.coordinate, _FAR)
        assert abs(after_ms - round_trip_ms) < abs(before_ms - round_trip_ms)


def test_repeated_measurements_of_one_peer_make_the_estimate_right_and_the_error_small() -> None:
    vivaldi = _vivaldi()
    for _ in range(100):
        vivaldi.measured("far", _FAR, 60.0)
    assert estimate_ms(vivaldi.coordinate, _FAR) == pytest.approx(60, rel=0.02)
    assert vivaldi.coordinate.error < 0.05


def test_a_single_slow_round_trip_changes_nothing() -> None:
    """The median of the last three counts."""
    calm, disturbed = _vivaldi(), _vivaldi()
    for number in range(40):
        assert calm.measured("far", _FAR, 60.0) == 60.0
        assert disturbed.measured("far", _FAR, 4000.0 if number % 3 == 2 else 60.0) == 60.0
    assert calm.coordinate == disturbed.coordinate


def test_who_knows_nothing_moves_more_than_who_is_sure() -> None:
    begin = Coordinate((50.0, *[0.0] * (DIMENSIONS - 1)), 1.0, 0.0, MAX_ERROR)
    unsure, sure = _vivaldi(begin), _vivaldi(replace(begin, error=0.05))
    for vivaldi in (unsure, sure):
        vivaldi.measured("far", _FAR, 70.0)
    moved_ms = [math.dist(one.coordinate.vector, begin.vector) for one in (unsure, sure)]
    assert moved_ms[0] > 1.5 * moved_ms[1]


@pytest.mark.parametrize("lie", [_FAR, Coordinate((9999.0,) * DIMENSIONS, 9999.0, -9999.0, 0.0), ORIGIN])
@pytest.mark.parametrize("round_trip_ms", [1e-9, 0.5, 9999.0])
def test_one_measurement_moves_a_process_by_no_more_than_the_longest_step(
    lie: Coordinate, round_trip_ms: float
) -> None:
    """Both the vector and the height; the adjustment has only its share of it, and the error rises a little."""
    vivaldi = _vivaldi()
    for _ in range(60):
        vivaldi.measured("north", Coordinate((0.0, 30.0, *[0.0] * 6), 1.0, 0.0, 0.1), 31.0)
    before = vivaldi.coordinate
    vivaldi.measured("liar", lie, round_trip_ms)
    after = vivaldi.coordinate
    assert math.dist(before.vector, after.vector) <= LONGEST_STEP_MS
    assert abs(after.height_ms - before.height_ms) <= LONGEST_STEP_MS
    assert abs(after.adjustment_ms - before.adjustment_ms) <= LONGEST_STEP_MS / 20
    assert after.error <= before.error + 0.25 * MAX_ERROR


@pytest.mark.parametrize("round_trip_ms", [math.nan, math.inf, 0.0, -5.0, 10_001.0])
def test_what_is_no_round_trip_is_refused_and_changes_nothing(round_trip_ms: float) -> None:
    vivaldi = _vivaldi()
    vivaldi.measured("far", _FAR, 60.0)
    before = vivaldi.coordinate
    with pytest.raises(InvalidValue):
        vivaldi.measured("far", _FAR, round_trip_ms)
    assert vivaldi.coordinate == before
    assert vivaldi.measured("far", _FAR, 60.0) == 60.0


def test_round_trips_of_peers_that_are_gone_are_forgotten() -> None:
    vivaldi = _vivaldi()
    for round_trip_ms in (80.0, 80.0):
        vivaldi.measured("far", _FAR, round_trip_ms)
    vivaldi.keep_only(["far"])
    assert vivaldi.measured("far", _FAR, 10.0) == 80.0
    vivaldi.keep_only([])
    assert vivaldi.measured("far", _FAR, 10.0) == 10.0
