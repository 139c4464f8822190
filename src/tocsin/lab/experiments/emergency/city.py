"""A city: a plane of metres with districts, some more crowded than others, and roads.

Generated from a seed, or read from a file of WKT `LINESTRING`s. Nothing here knows of time or chance of its own: the
random generator is handed in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
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
class Coordinates:
    x: float
    y: float

    def distance_to(self, other: Coordinates) -> float:
        return math.hypot(self.x - other.x, self.y - other.y)

    def towards(self, other: Coordinates, share: float) -> Coordinates:
        """The point `share` of the way from here to `other`."""
        return Coordinates(self.x + (other.x - self.x) * share, self.y + (other.y - self.y) * share)


@dataclass(frozen=True, slots=True)
class District:
    """`weight` is how many live and work there, beside the others."""

    name: str
    centre: Coordinates
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class City:
    """`roads[a]` holds the crossings that the crossing number `a` has a road to. The south-west corner is (0, 0)."""

    width_m: float
    height_m: float
    districts: tuple[District, ...]
    crossings: tuple[Coordinates, ...]
    roads: tuple[tuple[int, ...], ...]

    @staticmethod
    def generate(seed: int = 0) -> City:
        """A city of 10 km by 8 km; the same one for the same seed.

        >>> City.generate(1) == City.generate(1), City.generate(1) == City.generate(2)
        (True, False)
        """
        rng = Random(seed)
        columns, rows = int(WIDTH_M / _BLOCK_M), int(HEIGHT_M / _BLOCK_M)

        def crossing(column: int, row: int) -> Coordinates:
            # Half a block from the edge, so that no shift leads out of the city.
            shift_x, shift_y = (rng.uniform(-_JITTER, _JITTER) for _ in range(2))
            return Coordinates((column + 0.5 + shift_x) * _BLOCK_M, (row + 0.5 + shift_y) * _BLOCK_M)

        grid = [[crossing(column, row) for column in range(columns)] for row in range(rows)]
        across = [(grid[r][c], grid[r][c + 1]) for r in range(rows) for c in range(columns - 1)]
        along = [(grid[r][c], grid[r + 1][c]) for r in range(rows - 1) for c in range(columns)]
        segments = [segment for segment in across + along if rng.random() >= _MISSING]
        centres = rng.sample([point for line in grid for point in line], len(_DISTRICT_NAMES))
        return City._of(WIDTH_M, HEIGHT_M, _districts(centres), segments)

    @staticmethod
    def from_wkt(text: str, seed: int = 0) -> City:
        """The city whose roads are the `LINESTRING`s in `text`, in metres, moved so that its corner is (0, 0).

        Roads that share a point meet there. Districts are put at crossings that the seed chooses.

        >>> city = City.from_wkt("LINESTRING (100 200, 160 280) LINESTRING (160 280, 160 300)")
        >>> city.width_m, city.height_m, [len(there) for there in city.roads]
        (60.0, 100.0, [1, 2, 1])
        """
        lines = [_corners(match[1]) for match in _LINESTRING.finditer(text)]
        every = [point for line in lines for point in line]
        if not any(len(line) > 1 for line in lines):
            raise ValueError("no roads: expected WKT text with LINESTRING (x y, x y, ...)")
        west, south = min(point.x for point in every), min(point.y for point in every)
        moved = [[Coordinates(point.x - west, point.y - south) for point in line] for line in lines]
        width, height = max(point.x for point in every) - west, max(point.y for point in every) - south
        segments = [segment for line in moved for segment in pairwise(line)]
        locations = sorted({point for segment in segments for point in segment}, key=lambda point: (point.x, point.y))
        centres = Random(seed).sample(locations, min(len(locations), len(_DISTRICT_NAMES)))
        return City._of(width, height, _districts(centres), segments)

    @staticmethod
    def _of(width_m: float, height_m: float, districts: tuple[District, ...], segments: Iterable[Segment]) -> City:
        numbers: dict[Coordinates, int] = {}
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

    def district_at(self, point: Coordinates) -> District:
        """The district whose centre is nearest."""
        return min(self.districts, key=lambda district: district.centre.distance_to(point))

    def random_location(self, rng: Random) -> Coordinates:
        """A location beside some road."""
        start, end = self.random_road(rng)
        return self.crossings[start].towards(self.crossings[end], rng.random())

    def random_road(self, rng: Random) -> tuple[int, int]:
        """Two crossings that a road joins."""
        start = rng.randrange(len(self.crossings))
        while not self.roads[start]:  # only a road from a point to itself leads nowhere
            start = rng.randrange(len(self.crossings))
        return start, rng.choice(self.roads[start])

    def random_district(self, rng: Random) -> District:
        """The crowded ones more often."""
        return rng.choices(self.districts, [one.weight for one in self.districts])[0]

    def to_wkt(self) -> str:
        """The roads as text that `from_wkt` reads."""
        lines = [
            f"LINESTRING ({_coordinates(self.crossings[start])}, {_coordinates(self.crossings[end])})"
            for start, ends in enumerate(self.roads)
            for end in ends
            if start < end
        ]
        return "\n".join(lines) + "\n"


Segment = tuple[Coordinates, Coordinates]


def _districts(centres: Sequence[Coordinates]) -> tuple[District, ...]:
    """The first is the most crowded; each after it has a smaller share, as with the sizes of towns."""
    named = zip(_DISTRICT_NAMES, centres, strict=False)
    return tuple(District(name, centre, 1 / rank) for rank, (name, centre) in enumerate(named, 1))


def _coordinates(point: Coordinates) -> str:
    return f"{point.x:.2f} {point.y:.2f}"


def _corners(coordinates: str) -> list[Coordinates]:
    """The points of a `LINESTRING`'s inside; heights and measures beyond x and y are left out."""
    pairs = (pair.split()[:2] for pair in coordinates.split(","))
    return [Coordinates(float(x), float(y)) for x, y in pairs]
