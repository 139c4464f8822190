"""Vivaldi: a process finds its coordinate from round trips to others and from their coordinates (pure).

Each measurement acts like a spring between the two: it moves this process towards the other one or away from it. After
Dabek and others (2004), with the height of the same paper, the latency filter and gravity of Ledlie and others (2007)
and the adjustment of Lee and others (2010). The defaults are those of Serf, which has run them for years. What differs,
because others may lie: no single measurement moves a process by more than LONGEST_STEP_MS, counts as more than that in
the adjustment, or raises the error by more than the largest error would; the other's own error counts as at least
LEAST_ERROR; and gravity is that of Ledlie's paper, which together with the longest step keeps everybody within
FARTHEST_MS of the origin, whatever others say. ADR 36 has the measurements.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection

from tocsin.coordinates.coordinate import (
    DIMENSIONS,
    MAX_ERROR,
    MAX_MS,
    MIN_HEIGHT_MS,
    ORIGIN,
    Coordinate,
    check_round_trip_ms,
    estimate_ms,
)
from tocsin.model.chance import Chance

#: Serf's defaults.
ERROR_GAIN = 0.25
FORCE_GAIN = 0.25
ADJUSTMENT_WINDOW = 20
FILTERED_SAMPLES = 3
#: Nearer than this, two vectors have no direction between them.
_ZERO_MS = 1e-3
#: Whoever claims to make no error would move others as far as it likes.
LEAST_ERROR = 0.05
#: One measurement moves a process by no more than this: eight of them cross an ocean.
LONGEST_STEP_MS = 25.0
#: Gravity pulls by the square of the distance from the origin over this. Without it, all processes together drift away.
GRAVITY_MS = 256.0
#: Here gravity pulls as far as the longest step goes.
FARTHEST_MS = GRAVITY_MS * math.sqrt(LONGEST_STEP_MS) + LONGEST_STEP_MS
_CHANCE_STEPS = 1 << 53

_Vector = tuple[float, ...]


class Vivaldi:
    """One process's coordinate. It changes by `measured` alone."""

    def __init__(self, chance: Chance, begins_at: Coordinate = ORIGIN) -> None:
        self._chance = chance
        self._coordinate = begins_at
        #: The last differences between measured and estimated round trips, from which the adjustment follows.
        self._differences_ms: deque[float] = deque(maxlen=ADJUSTMENT_WINDOW)
        #: The last round trips to each peer.
        self._samples_ms: dict[str, deque[float]] = {}

    @property
    def coordinate(self) -> Coordinate:
        return self._coordinate

    def measured(self, peer: str, other: Coordinate, round_trip_ms: float) -> float:
        """A round trip to `peer`, which says that its coordinate is `other`. Returns the round trip that counts: the
        median of the last ones, so that a single slow one changes nothing. Raises InvalidValue and changes nothing if
        no round trip can be like that."""
        check_round_trip_ms(round_trip_ms)
        samples = self._samples_ms.setdefault(peer, deque(maxlen=FILTERED_SAMPLES))
        samples.append(round_trip_ms)
        usual_ms = sorted(samples)[len(samples) // 2]
        self._coordinate = self._moved(other, usual_ms)
        return usual_ms

    def keep_only(self, peers: Collection[str]) -> None:
        """Forget the round trips to all others: the memory is bounded by the number of peers."""
        for gone in self._samples_ms.keys() - set(peers):
            del self._samples_ms[gone]

    def _moved(self, other: Coordinate, round_trip_ms: float) -> Coordinate:
        mine = self._coordinate
        estimated_ms = estimate_ms(mine, other)
        weight = _weight(mine, other)
        wrong = min(MAX_ERROR, abs(estimated_ms - round_trip_ms) / round_trip_ms)
        gain = ERROR_GAIN * weight
        error = min(MAX_ERROR, gain * wrong + mine.error * (1 - gain))
        step_ms = _capped(FORCE_GAIN * weight * (round_trip_ms - estimated_ms), LONGEST_STEP_MS)
        vector, height_ms = self._pushed(mine, other, step_ms)
        vector = _pulled_to_origin(vector)
        unadjusted_ms = math.dist(vector, other.vector) + height_ms + other.height_ms
        self._differences_ms.append(_capped(round_trip_ms - unadjusted_ms, LONGEST_STEP_MS))
        return Coordinate(vector, height_ms, sum(self._differences_ms) / (2 * ADJUSTMENT_WINDOW), error)

    def _pushed(self, mine: Coordinate, other: Coordinate, step_ms: float) -> tuple[_Vector, float]:
        """The vector and the height after a step away from the other one, or towards it if `step_ms` is negative."""
        apart_ms = math.dist(mine.vector, other.vector)
        if apart_ms <= _ZERO_MS:
            direction = self._any_direction()
            height_ms = mine.height_ms
        else:
            direction = tuple((a - b) / apart_ms for a, b in zip(mine.vector, other.vector, strict=True))
            share = min(1.0, (mine.height_ms + other.height_ms) / apart_ms)
            height_ms = mine.height_ms + step_ms * share
        vector = tuple(at + step_ms * towards for at, towards in zip(mine.vector, direction, strict=True))
        return vector, min(MAX_MS, max(MIN_HEIGHT_MS, height_ms))

    def _any_direction(self) -> _Vector:
        """Of length one: two that begin at the same point have to part."""
        while True:
            drawn = [self._chance.randrange(_CHANCE_STEPS) / _CHANCE_STEPS - 0.5 for _ in range(DIMENSIONS)]
            length = math.hypot(*drawn)
            if length > _ZERO_MS:
                return tuple(one / length for one in drawn)


def _capped(value: float, most: float) -> float:
    return max(-most, min(most, value))


def _weight(mine: Coordinate, other: Coordinate) -> float:
    """How much the other one is believed: the more it knows, and the less we know."""
    theirs = max(LEAST_ERROR, other.error)
    return mine.error / (mine.error + theirs)


def _pulled_to_origin(vector: _Vector) -> _Vector:
    far_ms = math.hypot(*vector)
    if far_ms <= _ZERO_MS:
        return vector
    pull_ms = min(far_ms, (far_ms / GRAVITY_MS) ** 2)
    return tuple(one * (1 - pull_ms / far_ms) for one in vector)
