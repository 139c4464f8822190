"""Roads from WKT: read, thinned, and refused with what is wrong."""

from __future__ import annotations

import pytest

from tocsin.dashboard.roads import read_roads
from tocsin.errors import InvalidValue


def test_lines_are_read_and_thinned() -> None:
    """Bounds are those of all points; points that nobody could tell apart are left out, ends never."""
    close = ", ".join(f"{x / 10} 0" for x in range(10_000))
    roads = read_roads(f"LINESTRING ({close}, 1000 0)\nlinestring(0 0, 0 500)\nPOINT (9 9)\nLINESTRING (5 5)")
    assert roads["bounds"] == [0, 0, 1000, 500]
    long, short = roads["lines"]
    assert short == [0, 0, 0, 500]
    assert long[:2] == [0, 0]
    assert long[-2:] == [1000, 0]
    assert len(long) < 6000


def test_very_many_points_are_thinned_further() -> None:
    """A browser is never sent more than it draws with ease."""
    lines = [f"LINESTRING (0 {y}, {', '.join(f'{x} {y}' for x in range(10, 9000, 10))})" for y in range(0, 9000, 30)]
    roads = read_roads("\n".join(lines))
    assert 0 < sum(len(line) for line in roads["lines"]) <= 400_000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no LINESTRING"),
        ("LINESTRING (1 2, here)", "LINESTRING 1: 'here' is not a location"),
        ("LINESTRING (1 2, 3 inf)", "out of range"),
        ("LINESTRING (1 2, 3 1e300)", "out of range"),
        ("LINESTRING (0 0, 1 1) LINESTRING (1 2, 3)", "LINESTRING 2: '3' is not a location"),
    ],
)
def test_mistakes_are_told(text: str, reason: str) -> None:
    """The refusal says which line string is wrong, and what in it."""
    with pytest.raises(InvalidValue, match=reason):
        read_roads(text)
