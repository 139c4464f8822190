"""A coordinate in the space of round trips, and the round trip that two of them let expect (pure).

Everything is in milliseconds. The height stands for what every message of a process takes whoever it goes to, such as
the way to its provider; the adjustment for what the space can't show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tocsin.errors import InvalidValue

DIMENSIONS = 8
#: Longer round trips are not measured, and no part of a coordinate is larger.
MAX_MS = 10_000.0
#: Serf's: a round trip has some part that no direction explains.
MIN_HEIGHT_MS = 0.01
#: Errors are relative; this is Serf's for those who know nothing yet.
MAX_ERROR = 1.5


@dataclass(frozen=True, slots=True)
class Coordinate:
    """`error` says how far off its estimates were lately, relative to round trips."""

    vector: tuple[float, ...] = (0.0,) * DIMENSIONS
    height_ms: float = MIN_HEIGHT_MS
    adjustment_ms: float = 0.0
    error: float = MAX_ERROR

    def __post_init__(self) -> None:
        """Raises InvalidValue. Comparisons with NaN are false, so it passes none of these."""
        if len(self.vector) != DIMENSIONS:
            raise InvalidValue(f"coordinate: the vector has {len(self.vector)} numbers; {DIMENSIONS} are allowed")
        for one in self.vector:
            if not -MAX_MS <= one <= MAX_MS:
                raise InvalidValue(f"coordinate: {one} in the vector; allowed are {-MAX_MS:g} to {MAX_MS:g} ms")
        if not MIN_HEIGHT_MS <= self.height_ms <= MAX_MS:
            raise InvalidValue(f"coordinate: height_ms {self.height_ms}; allowed are {MIN_HEIGHT_MS} to {MAX_MS:g}")
        if not -MAX_MS <= self.adjustment_ms <= MAX_MS:
            raise InvalidValue(f"coordinate: adjustment_ms {self.adjustment_ms}; allowed are {-MAX_MS:g} to {MAX_MS:g}")
        if not 0 <= self.error <= MAX_ERROR:
            raise InvalidValue(f"coordinate: error {self.error}; allowed are 0 to {MAX_ERROR}")

    def rounded(self) -> Coordinate:
        """To microseconds, as it is sent: what is finer is noise."""
        return Coordinate(
            tuple(round(one, 3) for one in self.vector),
            max(MIN_HEIGHT_MS, round(self.height_ms, 3)),
            round(self.adjustment_ms, 3),
            round(self.error, 3),
        )


ORIGIN = Coordinate()


def estimate_ms(one: Coordinate, other: Coordinate) -> float:
    """The round trip to be expected between two processes.

    >>> north = Coordinate((30.0, *[0.0] * 7), height_ms=2.0)
    >>> south = Coordinate((0.0, 40.0, *[0.0] * 6), height_ms=3.0)
    >>> estimate_ms(north, south)
    55.0
    """
    plain_ms = math.dist(one.vector, other.vector) + one.height_ms + other.height_ms
    adjusted_ms = plain_ms + one.adjustment_ms + other.adjustment_ms
    return adjusted_ms if adjusted_ms > 0 else plain_ms


def check_round_trip_ms(round_trip_ms: float) -> None:
    """Raises InvalidValue unless it is a round trip that can have been measured."""
    if not 0 < round_trip_ms <= MAX_MS:
        raise InvalidValue(f"round trip of {round_trip_ms} ms; allowed are more than 0 and at most {MAX_MS:g}")
