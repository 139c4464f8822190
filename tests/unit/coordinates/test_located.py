"""Where a subscriber says that it is: what it measured counts before estimates, and what can't be is refused."""

from __future__ import annotations

import math

import pytest

from tocsin.coordinates.coordinate import DIMENSIONS, ORIGIN, Coordinate
from tocsin.coordinates.located import MAX_MEASURED, Located
from tocsin.errors import InvalidValue

_THERE = Coordinate((30.0, *[0.0] * (DIMENSIONS - 1)), 1.0)


def test_what_was_measured_counts_before_what_is_estimated() -> None:
    located = Located(ORIGIN, {"north": 12.5})
    assert located.round_trip_ms("north", _THERE) == 12.5
    assert located.round_trip_ms("south", _THERE) == pytest.approx(31.01)
    assert located.round_trip_ms("south", None) is None


@pytest.mark.parametrize(
    "round_trips_ms",
    [
        {"north": 0.0},
        {"north": -1.0},
        {"north": math.nan},
        {"north": math.inf},
        {"north": 10_001.0},
        {"n" * 65: 1.0},
        {str(number): 1.0 for number in range(MAX_MEASURED + 1)},
    ],
)
def test_what_can_not_have_been_measured_is_refused(round_trips_ms: dict[str, float]) -> None:
    """Nor are there ever more, or longer names, than a subscriber can have measured."""
    with pytest.raises(InvalidValue, match="allowed"):
        Located(ORIGIN, round_trips_ms)
