"""How people get about: along roads, never off them; some to and fro between home, work and errands, some anywhere.

Nothing here knows of time or chance of its own: both are handed in.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from tocsin.lab.experiments.emergency.city import City, Coordinates

#: Walking pace, and city traffic.
_WALKING_M_PER_S = (1.1, 1.8)
_DRIVING_M_PER_S = (6.0, 14.0)
#: Whoever has further than this between home and work drives.
_WALKABLE_M = 1500.0
#: How far around a district's centre its people live and work: two thirds are within this on either axis.
_SPREAD_M = 500.0
#: How long one stays at a place before going on to the next.
_STAYS_S = (60.0, 900.0)
_ERRANDS = 3


class RoadMap:
    """The part of a city's roads where one gets from everywhere to everywhere."""

    def __init__(self, city: City) -> None:
        self.city = city
        self.reachable = _largest_part(city.roads)

    def crossing_near(self, location: Coordinates) -> int:
        return min(self.reachable, key=lambda one: self.city.crossings[one].distance_to(location))

    def route(self, start: int, goal: int) -> list[int]:
        """The shortest way, crossing by crossing (A*)."""
        crossings, roads = self.city.crossings, self.city.roads
        target = crossings[goal]
        came_from: dict[int, int] = {start: start}
        walked_m = {start: 0.0}
        waiting = [(crossings[start].distance_to(target), start)]
        while waiting:
            _, here = heapq.heappop(waiting)
            if here == goal:
                break
            for there in roads[here]:
                reached_m = walked_m[here] + crossings[here].distance_to(crossings[there])
                if reached_m < walked_m.get(there, float("inf")):
                    walked_m[there] = reached_m
                    came_from[there] = here
                    heapq.heappush(waiting, (reached_m + crossings[there].distance_to(target), there))
        way = [goal]
        while way[-1] != start:
            way.append(came_from[way[-1]])
        return way[::-1]


def _largest_part(roads: Sequence[Sequence[int]]) -> tuple[int, ...]:
    unseen, largest = set(range(len(roads))), list[int]()
    while unseen:
        part = [unseen.pop()]
        for here in part:  # grows while it is walked through
            new = [there for there in roads[here] if there in unseen]
            unseen.difference_update(new)
            part += new
        largest = max(largest, part, key=len)
    return tuple(sorted(largest))


@dataclass(eq=False)
class Commuter:
    """Somebody with a home, a workplace and errands, who stays at each for a while and takes the shortest way on.
    `goals` are crossings, to be visited in turn; `stays_s` is how long this one stays where it is now."""

    roads: RoadMap
    goals: Sequence[int]
    speed_m_per_s: float
    stays_s: float

    def __post_init__(self) -> None:
        self._next_goal = 1
        self._way: list[Coordinates] = [self.roads.city.crossings[self.goals[0]]]
        self._walked_m = 0.0

    @staticmethod
    def settle(roads: RoadMap, rng: Random) -> Commuter:
        """Home, work and errands in districts, the crowded ones more often; now at home, at work or on an errand."""
        home, work, *errands = (_address(roads, rng) for _ in range(2 + _ERRANDS))
        crossings = roads.city.crossings
        drives = crossings[home].distance_to(crossings[work]) > _WALKABLE_M
        # Back home after each errand; an errand next door is none.
        goals = [home, work, *(one for errand in errands if errand not in (home, work) for one in (errand, home))]
        goals = goals[:-1] if len(goals) > 2 else goals
        begin = rng.choices(range(len(goals)), [3.0, 3.0, *[1.0] * (len(goals) - 2)])[0]
        speed_m_per_s = rng.uniform(*(_DRIVING_M_PER_S if drives else _WALKING_M_PER_S))
        return Commuter(roads, goals[begin:] + goals[:begin], speed_m_per_s, rng.uniform(0, _STAYS_S[1]))

    @property
    def location(self) -> Coordinates:
        left_m = self._walked_m
        for start, end in pairwise(self._way):
            length_m = start.distance_to(end)
            if left_m <= length_m:
                return start.towards(end, left_m / (length_m or 1.0))
            left_m -= length_m
        return self._way[-1]

    def advance(self, seconds: float, rng: Random) -> None:
        """Go on for `seconds`: staying, or on the way to what is next."""
        while seconds > 0:
            if self.stays_s > seconds:
                self.stays_s -= seconds
                return
            seconds -= self.stays_s
            self.stays_s = 0.0
            if len(self._way) == 1:
                self._set_out()
            seconds = self._move(seconds, rng)

    def _set_out(self) -> None:
        start, goal = (self.goals[number % len(self.goals)] for number in (self._next_goal - 1, self._next_goal))
        self._next_goal += 1
        self._way = [self.roads.city.crossings[one] for one in self.roads.route(start, goal)]
        self._walked_m = 0.0

    def _move(self, seconds: float, rng: Random) -> float:
        """Returns the time that is left on arrival; then it stays."""
        self._walked_m += self.speed_m_per_s * seconds
        while len(self._way) > 1 and self._walked_m >= (length_m := self._way[0].distance_to(self._way[1])):
            self._walked_m -= length_m
            del self._way[0]
        if len(self._way) > 1:
            return 0.0
        left_s, self._walked_m = self._walked_m / self.speed_m_per_s, 0.0
        self.stays_s = rng.uniform(*_STAYS_S)
        return left_s


def _address(roads: RoadMap, rng: Random) -> int:
    centre = roads.city.random_district(rng).centre
    return roads.crossing_near(Coordinates(rng.gauss(centre.x, _SPREAD_M), rng.gauss(centre.y, _SPREAD_M)))


@dataclass(slots=True)
class Roamer:
    """Somebody without a goal: along a road, at the next crossing into any other, back only from a dead end."""

    city: City
    #: The crossings that it comes from and goes to.
    behind: int
    ahead: int
    walked_m: float
    speed_m_per_s: float

    @staticmethod
    def start(city: City, rng: Random, speed_m_per_s: float) -> Roamer:
        """Somewhere on some road."""
        start, end = city.random_road(rng)
        length = city.crossings[start].distance_to(city.crossings[end])
        return Roamer(city, start, end, rng.uniform(0, length), speed_m_per_s)

    @property
    def location(self) -> Coordinates:
        start, end = self.city.crossings[self.behind], self.city.crossings[self.ahead]
        return start.towards(end, self.walked_m / (start.distance_to(end) or 1.0))

    def advance(self, seconds: float, rng: Random) -> None:
        """Go on for `seconds`."""
        self.walked_m += self.speed_m_per_s * seconds
        crossings = self.city.crossings
        while self.walked_m > (length := crossings[self.behind].distance_to(crossings[self.ahead])):
            self.walked_m -= length
            onward = [there for there in self.city.roads[self.ahead] if there != self.behind]
            self.behind, self.ahead = self.ahead, rng.choice(onward) if onward else self.behind
