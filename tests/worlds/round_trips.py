"""Processes that measure round trips to each other, in a drawn network; the last one may lie."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import combinations

from tocsin.coordinates.coordinate import DIMENSIONS, MIN_HEIGHT_MS, Coordinate, estimate_ms
from tocsin.coordinates.vivaldi import Vivaldi

#: The coordinate and the round trip that a liar makes another process see.
Lie = Callable[[Coordinate, float, random.Random], tuple[Coordinate, float]]


def metric_space(
    count: int, dimensions: int, wide_ms: float, tall_ms: float, rng: random.Random
) -> Sequence[Sequence[float]]:
    """Round trips between points drawn in a cube, each with a height."""
    points = [[rng.uniform(0, wide_ms) for _ in range(dimensions)] for _ in range(count)]
    heights = [rng.uniform(0.1, 0.1 + tall_ms) for _ in range(count)]
    return [
        [math.dist(one, other) + heights[i] + heights[j] for j, other in enumerate(points)]
        for i, one in enumerate(points)
    ]


def liar_among(kind: str) -> Lie:
    """Liars of each kind claim to make no error."""
    edge = 9_999.0
    zeros = (0.0,) * (DIMENSIONS - 1)

    def lie(mine: Coordinate, round_trip_ms: float, rng: random.Random) -> tuple[Coordinate, float]:
        match kind:
            case "far":
                return Coordinate((edge, *zeros), 1.0, 0.0, 0.0), round_trip_ms
            case "ahead":
                return Coordinate((mine.vector[0] + 2000.0, *mine.vector[1:]), 1.0, 0.0, 0.0), round_trip_ms
            case "anywhere":
                return Coordinate(tuple(rng.uniform(-edge, edge) for _ in range(DIMENSIONS)), 1.0, 0.0, 0.0), (
                    round_trip_ms
                )
            case "slow":
                return Coordinate(mine.vector, 1.0, 0.0, 0.0), edge
            case _:
                return Coordinate(mine.vector, edge, -edge, 0.0), round_trip_ms

    return lie


class Network:
    def __init__(self, round_trips_ms: Sequence[Sequence[float]], seed: int, lie: Lie | None = None) -> None:
        self.round_trips_ms = round_trips_ms
        self.processes = [Vivaldi(random.Random(seed + number)) for number in range(len(round_trips_ms))]
        self._rng = random.Random(seed)
        self._lie = lie

    @property
    def honest(self) -> Sequence[Vivaldi]:
        return self.processes if self._lie is None else self.processes[:-1]

    def run(self, steps: int) -> None:
        """Everybody measures a random other one, so many times."""
        last = len(self.processes) - 1
        for _ in range(steps):
            for number, one in enumerate(self.honest):
                peer = self._rng.randrange(last)
                peer += peer >= number
                claimed = self.processes[peer].coordinate.rounded()
                round_trip_ms = self.round_trips_ms[number][peer]
                if self._lie is not None and peer == last:
                    claimed, round_trip_ms = self._lie(one.coordinate, round_trip_ms, self._rng)
                one.measured(str(peer), claimed, max(MIN_HEIGHT_MS, round_trip_ms))

    def errors(self) -> list[float]:
        """How far off the estimates among the honest ones are, relative to the round trips."""
        return [
            abs(estimate_ms(one.coordinate, other.coordinate) - self.round_trips_ms[i][j]) / self.round_trips_ms[i][j]
            for (i, one), (j, other) in combinations(enumerate(self.honest), 2)
        ]
