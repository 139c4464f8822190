"""What brokers measure, evened out over some seconds."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.dashboard.sampling import MeasuredLoads


def seen(**loads: float) -> dict[str, Any]:
    return {
        "brokers": [
            {"name": name, "state": "active", "capacity": 1.0, "in": load / 2, "out": load / 2}
            for name, load in loads.items()
        ]
    }


def test_bursts_at_different_moments_are_no_unevenness() -> None:
    """Two brokers that take turns carry the same; the latest figures alone would say otherwise."""
    measured = MeasuredLoads()
    now = seen(a=100.0, b=0.0)
    assert measured.cov(now["brokers"]) == pytest.approx(1.0)
    for second in range(10):
        measured.add(seen(a=100.0 * (second % 2), b=100.0 * (1 - second % 2)))
    assert measured.cov(now["brokers"]) == pytest.approx(0.0)


def test_capacities_count_and_the_past_passes() -> None:
    """A broker of twice the capacity may carry twice as much; what is older than ten seconds counts no more."""
    measured = MeasuredLoads()
    for _ in range(5):
        measured.add(seen(a=900.0, b=100.0))
    for _ in range(10):
        measured.add(seen(a=200.0, b=100.0))
    brokers = seen(a=0.0, b=0.0)["brokers"]
    assert measured.cov(brokers) > 0.3
    brokers[0]["capacity"] = 2.0
    assert measured.cov(brokers) == pytest.approx(0.0)
    measured.add(seen(b=1.0))
    assert measured.cov([{"name": "a", "state": "active", "capacity": 1.0, "in": 5.0, "out": 0.0}]) == 0.0


def test_a_quiet_cordoned_broker_makes_nothing_uneven() -> None:
    measured = MeasuredLoads()
    brokers = seen(a=100.0, b=100.0, c=0.0)["brokers"]
    assert measured.cov(brokers) > 0.5
    brokers[2]["state"] = "cordoned"
    assert measured.cov(brokers) == 0.0
