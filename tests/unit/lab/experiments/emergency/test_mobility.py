"""How people get about: on roads, by the shortest way, at their own pace, and never by a jump."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tocsin.lab.experiments.emergency.city import City, Coordinates
from tocsin.lab.experiments.emergency.mobility import Commuter, RoadMap, Roamer
from unit.lab.experiments.emergency.test_city import on_a_road

#: A square of roads with a long way round, a dead end, and an island that nobody reaches.
_SQUARE = """
LINESTRING (0 0, 100 0, 100 100) LINESTRING (0 0, 0 300, 100 300, 100 100) LINESTRING (100 100, 200 100)
LINESTRING (900 900, 950 900)
"""


def crossing(city: City, x: float, y: float) -> int:
    return city.crossings.index(Coordinates(x, y))


def test_the_shortest_way() -> None:
    """From crossing to crossing along roads; the way to where one is has one crossing."""
    city = City.from_wkt(_SQUARE)
    roads = RoadMap(city)
    way = roads.route(crossing(city, 0, 0), crossing(city, 200, 100))
    assert [(city.crossings[one].x, city.crossings[one].y) for one in way] == [(0, 0), (100, 0), (100, 100), (200, 100)]
    assert roads.route(3, 3) == [3]


def test_nobody_lives_where_no_road_leads() -> None:
    """The nearest crossing is one that can be reached from the others."""
    city = City.from_wkt(_SQUARE)
    roads = RoadMap(city)
    assert crossing(city, 900, 900) not in roads.reachable
    assert roads.crossing_near(Coordinates(1000, 1000)) == crossing(city, 100, 300)


def test_a_commuter_stays_then_goes_then_stays() -> None:
    city = City.from_wkt(_SQUARE)
    goals = [crossing(city, 0, 0), crossing(city, 100, 100)]
    commuter, rng = Commuter(RoadMap(city), goals, speed_m_per_s=10, stays_s=5), Random(1)
    commuter.advance(4, rng)
    assert commuter.location == Coordinates(0, 0)
    commuter.advance(6, rng)
    assert commuter.location == Coordinates(50, 0)
    commuter.advance(10, rng)
    assert commuter.location == Coordinates(100, 50)
    commuter.advance(5, rng)
    assert commuter.location == Coordinates(100, 100)
    commuter.advance(50, rng)
    assert commuter.location == Coordinates(100, 100), "one stays a minute at least"


@pytest.mark.parametrize("step_s", [0.7, 90.0])
def test_commuters_are_on_roads_and_never_jump(step_s: float) -> None:
    """However long a step is, nobody gets further than driving takes them."""
    city, rng = City.generate(4), Random(4)
    roads = RoadMap(city)
    people = [Commuter.settle(roads, rng) for _ in range(12)]
    moved = 0
    for _ in range(60):
        for person in people:
            before = person.location
            person.advance(step_s, rng)
            assert before.distance_to(person.location) <= 14.0 * step_s + 0.01
            moved += before != person.location
    assert moved
    assert all(on_a_road(city, person.location) for person in people)


def test_steps_do_not_matter() -> None:
    """Ten steps of a second and one of ten seconds lead to the same place."""
    city = City.generate(4)
    goals = [RoadMap(city).reachable[number] for number in (0, 300, 600)]
    one, other = (Commuter(RoadMap(city), goals, 8.0, 3.0) for _ in range(2))
    for _ in range(100):
        one.advance(1, Random(0))
    other.advance(100, Random(0))
    assert one.location.distance_to(other.location) < 0.001


def test_crowded_districts_have_more_people() -> None:
    """Homes are drawn by the districts' weights."""
    city, rng = City.generate(2), Random(2)
    roads = RoadMap(city)
    homes = Counter(city.district_at(Commuter.settle(roads, rng).location).name for _ in range(600))
    most, least = city.districts[0], city.districts[-1]
    assert most.weight > 10 * least.weight
    assert homes[most.name] > 3 * homes[least.name]


def test_a_roamer_turns_back_at_a_dead_end() -> None:
    city = City.from_wkt("LINESTRING (0 0, 100 0)")
    roamer = Roamer(city, 0, 1, walked_m=90, speed_m_per_s=10)
    roamer.advance(2, Random(0))
    assert roamer.location == Coordinates(90, 0)
