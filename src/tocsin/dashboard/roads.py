"""Roads for the map's background, from WKT (pure): lines of LINESTRING (x y, x y, …), in metres."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tocsin.errors import InvalidValue
from tocsin.model.location import Location

_LINE = re.compile(r"LINESTRING\s*Z?\s*\(([^()]*)\)", re.IGNORECASE)
#: Points that are closer together than this share of the whole can't be told apart on a screen.
_APART = 1 / 2500
#: A browser draws so many points without effort.
_MAX_POINTS = 200_000


def read_roads(text: str) -> dict[str, Any]:
    """`bounds` (left, bottom, right, top) and `lines`, each x, y, x, y … in whole metres.

    >>> read_roads("LINESTRING (0 0, 1000 0, 1000 500.4)")["lines"]
    [[0, 0, 1000, 0, 1000, 500]]
    """
    lines = [_points(match[1], number) for number, match in enumerate(_LINE.finditer(text), 1)]
    lines = [line for line in lines if len(line) > 1]
    if not lines:
        raise InvalidValue("no LINESTRING (x y, x y, …) is in it")
    xs, ys = ([point[axis] for line in lines for point in line] for axis in (0, 1))
    bounds = [min(xs), min(ys), max(xs), max(ys)]
    apart_m = math.hypot(bounds[2] - bounds[0], bounds[3] - bounds[1]) * _APART
    thinned = [_thinned(line, apart_m) for line in lines]
    while sum(map(len, thinned)) > _MAX_POINTS:
        apart_m *= 2
        thinned = [_thinned(line, apart_m) for line in thinned if _length_m(line) > apart_m]
    return {
        "bounds": [round(one) for one in bounds],
        "lines": [[round(value) for point in line for value in point] for line in thinned],
    }


def _points(text: str, number: int) -> list[Location]:
    points = []
    for pair in text.split(","):
        try:
            x, y = (float(part) for part in pair.split()[:2])
        except ValueError:
            raise InvalidValue(f"LINESTRING {number}: {pair.strip()!r} is not a location: two numbers") from None
        if not (math.isfinite(x) and math.isfinite(y) and max(abs(x), abs(y)) <= 1e9):
            raise InvalidValue(f"LINESTRING {number}: {pair.strip()!r} is out of range")
        points.append((x, y))
    return points


def _thinned(line: Sequence[Location], apart_m: float) -> list[Location]:
    """The line without points that are too close to the last one kept; the ends stay."""
    kept = [line[0]]
    for point in line[1:-1]:
        if math.dist(kept[-1], point) >= apart_m:
            kept.append(point)
    return [*kept, line[-1]]


def _length_m(line: Sequence[Location]) -> float:
    return sum(math.dist(a, b) for a, b in pairwise(line))
