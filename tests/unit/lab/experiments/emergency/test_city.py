"""The generated city and the people who move in it."""

from random import Random

import pytest

from tocsin.lab.experiments.emergency.city import City, Coordinates
from tocsin.lab.experiments.emergency.mobility import Roamer
from worlds.city_crowd import is_inside


def on_a_road(city: City, location: Coordinates) -> bool:
    """Whether `location` lies on some segment, to a centimetre."""
    for start, ends in enumerate(city.roads):
        for end in ends:
            a, b = city.crossings[start], city.crossings[end]
            if abs(a.distance_to(location) + location.distance_to(b) - a.distance_to(b)) < 0.01:
                return True
    return False


def test_everything_is_inside() -> None:
    """No crossing and no district centre lies outside."""
    city = City.generate(3)
    assert (city.width_m, city.height_m) == (10_000, 8_000)
    assert all(is_inside(city, point.x, point.y) for point in city.crossings)
    assert all(district.centre in city.crossings for district in city.districts)
    assert len({district.name for district in city.districts}) == 12


def test_roads_lead_both_ways() -> None:
    """Whoever can walk there can walk back."""
    city = City.generate(3)
    assert all(start in city.roads[end] for start, ends in enumerate(city.roads) for end in ends)


@pytest.mark.parametrize("speed_m_per_s", [1.5, 200.0])
def test_walkers_stay_on_roads(speed_m_per_s: float) -> None:
    """However fast, a walker is always on a road, and inside the city."""
    city, rng = City.generate(4), Random(4)
    walker = Roamer.start(city, rng, speed_m_per_s)
    for _ in range(20):
        before = walker.location
        walker.advance(7, rng)
        assert before.distance_to(walker.location) <= speed_m_per_s * 7 + 0.01
        assert on_a_road(city, walker.location)


def test_dead_end_turns_back() -> None:
    """On a single road a walker goes to and fro."""
    city = City.from_wkt("LINESTRING (0 0, 100 0)")
    walker = Roamer(city, 0, 1, walked_m=90, speed_m_per_s=10)
    walker.advance(2, Random(0))
    assert walker.location == Coordinates(90, 0)


def test_wkt_roads_meet_and_are_moved_to_the_corner() -> None:
    """Roads that share a point are joined; large coordinates become metres from the corner; heights are left out."""
    text = """
    LINESTRING (2553179.5 6674191.5, 2553177.5 6674217.5, 2553204.5 6674219.5)

    linestring (2553204.5 6674219.5 12.0, 2553300.5 6674191.5 14.0)
    """
    city = City.from_wkt(text)
    assert len(city.crossings) == 4
    assert (city.width_m, city.height_m) == (123.0, 28.0)
    assert sorted(len(there) for there in city.roads) == [1, 1, 2, 2]


def test_text_without_roads_is_refused() -> None:
    """A file of something else is named for what it is."""
    with pytest.raises(ValueError, match="no roads: expected WKT text with LINESTRING"):
        City.from_wkt("POINT (1 2)")
