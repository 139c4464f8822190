"""How uneven brokers get by chance is learned from forecasts that were off."""

from __future__ import annotations

import pytest

from tocsin.coordinator.load.outlook import ForecastErrors, MoveTimes


def test_right_forecasts_leave_nothing_to_chance() -> None:
    """Nor does what all brokers have in common."""
    errors = ForecastErrors()
    assert errors.chance == 0, "nothing is known"
    errors.compare([10, 20, 30], [10, 20, 30])
    errors.compare([10, 20, 30], [20, 40, 60])
    assert errors.chance == 0, "twice as much for everybody makes nobody busier than others"


def test_chance_is_the_cov_of_what_was_off() -> None:
    errors = ForecastErrors()
    for _ in range(3):
        errors.compare([10, 10], [12, 8])
    assert errors.chance == pytest.approx(0.2)


def test_chance_follows_the_last_five_windows() -> None:
    """Earlier ones hardly count."""
    errors = ForecastErrors()
    for _ in range(50):
        errors.compare([10, 10], [15, 5])
    for _ in range(15):
        errors.compare([10, 10], [11, 9])
    assert errors.chance == pytest.approx(0.1, abs=0.05)


def test_nothing_is_learned_from_nothing() -> None:
    """One broker, no broker, and no load say nothing about chance."""
    errors = ForecastErrors()
    errors.compare([], [])
    errors.compare([10], [20])
    errors.compare([0, 0], [10, 10])
    assert errors.chance == 0


def test_moves_take_as_long_as_the_last_ones() -> None:
    times = MoveTimes()
    for _ in range(100):
        times.add(4.0)
    assert times.mean_s == pytest.approx(4.0, abs=0.1)
