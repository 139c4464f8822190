"""A city: a plane of metres with districts, and roads that people move along.

Generated from a seed, or read from a file of WKT `LINESTRING`s. Nothing here knows of time or chance of its own: the
random generator is handed in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from random import Random

#: A generated city's size.
WIDTH_M = 10_000.0
HEIGHT_M = 8_000.0

#: Distance between crossings before they are shifted about. City blocks are 80 to 300 m; larger ones keep the graph
#: small, and nothing depends on it.
_BLOCK_M = 250.0
#: How far a crossing may stray from the grid, as a share of a block.
_JITTER = 0.3
#: The share of road segments that were never built.
_MISSING = 0.12

_DISTRICT_NAMES = (
    "Old Town", "Harbour", "Northgate", "Eastfield", "Westbank", "Southmoor", "Mill Quarter", "University",
    "Riverside", "Hillcrest", "Station", "Market",
)  # fmt: skip

_LINESTRING = re.compile(r"LINESTRING\s*\(([^)]*)\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float

    def distance_to(self, other: Point) -> float:
        return math.hypot(self.x - other.x, self.y - other.y)

    def towards(self, other: Point, share: float) -> Point:
        """The point `share` of the way from here to `other`."""
        return Point(self.x + (other.x - self.x) * share, self.y + (other.y - self.y) * share)


@dataclass(frozen=True, slots=True)
class District:
    name: str
    centre: Point


@dataclass(frozen=True, slots=True)
class City:
    """`roads[a]` holds the crossings that the crossing number `a` has a road to. The south-west corner is (0, 0)."""

    width_m: float
    height_m: float
    districts: tuple[District, ...]
    crossings: tuple[Point, ...]
    roads: tuple[tuple[int, ...], ...]

    @staticmethod
    def generate(seed: int = 0) -> City:
        """A city of 10 km by 8 km; the same one for the same seed.

        >>> City.generate(1) == City.generate(1), City.generate(1) == City.generate(2)
        (True, False)
        """
        rng = Random(seed)
        columns, rows = int(WIDTH_M / _BLOCK_M), int(HEIGHT_M / _BLOCK_M)

        def crossing(column: int, row: int) -> Point:
            # Half a block from the edge, so that no shift leads out of the city.
            shift_x, shift_y = (rng.uniform(-_JITTER, _JITTER) for _ in range(2))
            return Point((column + 0.5 + shift_x) * _BLOCK_M, (row + 0.5 + shift_y) * _BLOCK_M)

        grid = [[crossing(column, row) for column in range(columns)] for row in range(rows)]
        across = [(grid[r][c], grid[r][c + 1]) for r in range(rows) for c in range(columns - 1)]
        along = [(grid[r][c], grid[r + 1][c]) for r in range(rows - 1) for c in range(columns)]
        segments = [segment for segment in across + along if rng.random() >= _MISSING]
        centres = rng.sample([point for line in grid for point in line], len(_DISTRICT_NAMES))
        districts = tuple(District(name, centre) for name, centre in zip(_DISTRICT_NAMES, centres, strict=True))
        return City._of(WIDTH_M, HEIGHT_M, districts, segments)

    @staticmethod
    def from_wkt(text: str, seed: int = 0) -> City:
        """The city whose roads are the `LINESTRING`s in `text`, in metres, moved so that its corner is (0, 0).

        Roads that share a point meet there. Districts are put at crossings that the seed chooses.

        >>> city = City.from_wkt("LINESTRING (100 200, 160 280) LINESTRING (160 280, 160 300)")
        >>> city.width_m, city.height_m, [len(there) for there in city.roads]
        (60.0, 100.0, [1, 2, 1])
        """
        lines = [_points(match[1]) for match in _LINESTRING.finditer(text)]
        every = [point for line in lines for point in line]
        if not any(len(line) > 1 for line in lines):
            raise ValueError("no roads: expected WKT text with LINESTRING (x y, x y, ...)")
        west, south = min(point.x for point in every), min(point.y for point in every)
        moved = [[Point(point.x - west, point.y - south) for point in line] for line in lines]
        width, height = max(point.x for point in every) - west, max(point.y for point in every) - south
        segments = [segment for line in moved for segment in pairwise(line)]
        places = sorted({point for segment in segments for point in segment}, key=lambda point: (point.x, point.y))
        centres = Random(seed).sample(places, min(len(places), len(_DISTRICT_NAMES)))
        districts = tuple(District(name, centre) for name, centre in zip(_DISTRICT_NAMES, centres, strict=False))
        return City._of(width, height, districts, segments)

    @staticmethod
    def _of(width_m: float, height_m: float, districts: tuple[District, ...], segments: Iterable[Segment]) -> City:
        numbers: dict[Point, int] = {}
        roads: list[set[int]] = []
        for segment in segments:
            for point in segment:
                if point not in numbers:
                    numbers[point] = len(numbers)
                    roads.append(set())
            a, b = (numbers[point] for point in segment)
            if a != b:
                roads[a].add(b)
                roads[b].add(a)
        return City(width_m, height_m, districts, tuple(numbers), tuple(tuple(sorted(there)) for there in roads))

    def contains(self, x: float, y: float) -> bool:
        return 0 <= x <= self.width_m and 0 <= y <= self.height_m

    def district_at(self, point: Point) -> District:
        """The district whose centre is nearest."""
        return min(self.districts, key=lambda district: district.centre.distance_to(point))

    def random_place(self, rng: Random) -> Point:
        """A place beside some road."""
        walker = Walker.start(self, rng, speed_m_per_s=0)
        return walker.place


Segment = tuple[Point, Point]


def _points(coordinates: str) -> list[Point]:
    """The points of a `LINESTRING`'s inside; heights and measures beyond x and y are left out."""
    pairs = (pair.split()[:2] for pair in coordinates.split(","))
    return [Point(float(x), float(y)) for x, y in pairs]


class Walker:
    """Somebody on the move: along a road, at the next crossing into any other, back only from a dead end."""

    def __init__(self, city: City, start: int, end: int, walked_m: float, speed_m_per_s: float) -> None:
        self._city = city
        self._start = start
        self._end = end
        self._walked_m = walked_m
        self._speed_m_per_s = speed_m_per_s

    @staticmethod
    def start(city: City, rng: Random, speed_m_per_s: float) -> Walker:
        """A walker somewhere on some road."""
        start = rng.randrange(len(city.crossings))
        while not city.roads[start]:  # only a road from a point to itself leads nowhere
            start = rng.randrange(len(city.crossings))
        end = rng.choice(city.roads[start])
        length = city.crossings[start].distance_to(city.crossings[end])
        return Walker(city, start, end, rng.uniform(0, length), speed_m_per_s)

    @property
    def place(self) -> Point:
        start, end = self._city.crossings[self._start], self._city.crossings[self._end]
        return start.towards(end, self._walked_m / (start.distance_to(end) or 1.0))

    def walk(self, seconds: float, rng: Random) -> None:
        """Go on for `seconds`."""
        self._walked_m += self._speed_m_per_s * seconds
        crossings = self._city.crossings
        while self._walked_m > (length := crossings[self._start].distance_to(crossings[self._end])):
            self._walked_m -= length
            onward = [there for there in self._city.roads[self._end] if there != self._start]
            self._start, self._end = self._end, rng.choice(onward) if onward else self._start
