"""Moves per person and hour, over the last hour."""

from __future__ import annotations

from tocsin.coordinator.load.move_rate import MoveRate


def test_moves_of_the_last_hour_count() -> None:
    """Earlier ones do not."""
    rate = MoveRate(0.0)
    for now_s in range(0, 7200, 60):
        rate.add(now_s)
        rate.add(now_s)
    assert rate.per_person_hour(7200, 12) == 10
    assert rate.per_person_hour(20_000, 12) == 0


def test_a_coordinator_that_has_just_begun_counts_at_least_a_minute() -> None:
    rate = MoveRate(1000.0)
    rate.add(1001.0)
    assert rate.per_person_hour(1002.0, 60) == 1
    assert rate.per_person_hour(1000.0 + 1800, 2) == 1
    assert rate.per_person_hour(1002.0, 0) == 0
