"""A living city: people on their ways, reports of what happens, and which of them each subscription matches (pure).

Everything is drawn before the run begins. People go straight from one of their addresses to the next, on foot or by
car, and stay there for a while. Reports come from roaming sources, one for each type, so that those near somebody come
in bursts, as a source passes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tocsin.simulator.chance import stream
from tocsin.simulator.scenario import City, Journeys, Matching, Reports, Scenario

Floats = NDArray[np.float64]
Wide = NDArray[np.int64]

#: Home, work, and where errands lead.
_ADDRESSES = 5
#: How likely each address is to be the next goal.
_VISITED = np.array([0.3, 0.3, 0.2, 0.1, 0.1])


@dataclass(frozen=True, slots=True, eq=False)
class Ways:
    """Where everybody is when: `points[i, k]` at `times_s[i, k]`, on a straight way in between."""

    times_s: Floats
    points: Floats

    def location(self, subscriber: int, now_s: float) -> Floats:
        one = slice(subscriber, subscriber + 1)
        found: Floats = Ways(self.times_s[one], self.points[one]).locations(now_s)[0]
        return found

    def locations(self, now_s: float) -> Floats:
        """Everybody's."""
        after = np.clip((self.times_s <= now_s).sum(axis=1), 1, self.times_s.shape[1] - 1)
        who = np.arange(len(after))
        begun, ended = self.times_s[who, after - 1], self.times_s[who, after]
        share = np.clip((now_s - begun) / np.maximum(ended - begun, 1e-9), 0.0, 1.0)
        start, goal = self.points[who, after - 1], self.points[who, after]
        there: Floats = start + (goal - start) * share[:, None]
        return there


@dataclass(frozen=True, slots=True, eq=False)
class DrawnReports:
    """All reports of a run, in the order of time."""

    times_s: Floats
    types: Wide
    locations: Floats
    sizes_bytes: Wide


@dataclass(frozen=True, slots=True, eq=False)
class LivingCity:
    """`ways` are the subscribers', in their order."""

    districts: Floats
    ways: Ways | None
    reports: DrawnReports | None
    types: int

    def matched_bytes(self, matching: Matching, since_s: float, now_s: float) -> Wide:
        """The bytes that each of a channel's subscriptions gets for the reports after `since_s`, up to `now_s`.

        Subscriptions are numbered by person or location, then by radius, then by type.
        """
        assert self.reports is not None
        first, last = np.searchsorted(self.reports.times_s, [since_s, now_s], side="right")
        part = slice(int(first), int(last))
        sizes = self.reports.sizes_bytes[part] * matching.results
        if matching.where == "anywhere":
            near = np.ones((1, 1, len(sizes)), np.bool_)
        else:
            centres = self.ways.locations(now_s) if matching.where == "person" and self.ways else self.districts
            distances = np.linalg.norm(centres[:, None] - self.reports.locations[part], axis=2)
            near = distances[:, None] <= np.asarray(matching.radii_m)[:, None]
        if matching.by_type:
            sizes = (self.reports.types[part][:, None] == np.arange(self.types)) * sizes[:, None]
        matched: Wide = (near @ sizes).reshape(-1)
        return matched


def draw_city(scenario: Scenario, size_m: Floats, seed: int) -> LivingCity:
    city, reports = scenario.city, scenario.reports
    districts = stream(seed, "districts").random((city.districts, 2)) * size_m
    journeys = scenario.subscribers.journeys
    count, duration_s = scenario.subscribers.count, scenario.duration_s
    return LivingCity(
        districts,
        _draw_ways(journeys, city, districts, size_m, count, duration_s, seed) if journeys else None,
        _draw_reports(reports, size_m, duration_s, seed) if reports else None,
        reports.types if reports else 0,
    )


def _draw_ways(
    journeys: Journeys, city: City, districts: Floats, size_m: Floats, count: int, duration_s: float, seed: int
) -> Ways:
    chance = stream(seed, "journeys")
    # The first district is the most crowded; each after it has a smaller share, as with the sizes of towns.
    weights = 1 / np.arange(1, len(districts) + 1)
    where = chance.choice(len(districts), (count, _ADDRESSES), p=weights / weights.sum())
    addresses = districts[where] + chance.normal(size=(count, _ADDRESSES, 2)) * city.district_spread_m
    addresses = np.clip(addresses, 0.0, size_m)
    drives = np.linalg.norm(addresses[:, 0] - addresses[:, 1], axis=1) > journeys.walkable_m
    paces = [chance.uniform(*between, count) for between in (journeys.walks_m_per_s, journeys.drives_m_per_s)]
    speeds_m_per_s = np.where(drives, paces[1], paces[0])
    who = np.arange(count)
    at = chance.choice(_ADDRESSES, count, p=_VISITED)
    times_s = [np.zeros(count), chance.uniform(0, journeys.stays_s[1], count)]
    points = [addresses[who, at]] * 2
    while times_s[-1].min() <= duration_s:
        # Any address but the one where they are.
        at = (at + chance.integers(1, _ADDRESSES, count)) % _ADDRESSES
        goal = addresses[who, at]
        arrival_s = times_s[-1] + np.linalg.norm(goal - points[-1], axis=1) / speeds_m_per_s
        times_s += [arrival_s, arrival_s + chance.uniform(*journeys.stays_s, count)]
        points += [goal, goal]
    return Ways(np.stack(times_s, axis=1), np.stack(points, axis=1))


def _draw_reports(reports: Reports, size_m: Floats, duration_s: float, seed: int) -> DrawnReports:
    chance = stream(seed, "reports")
    count = int(chance.poisson(reports.per_s * duration_s))
    times_s = np.sort(chance.random(count) * duration_s)
    types = chance.integers(reports.types, size=count)
    sizes_bytes = chance.integers(reports.size_bytes[0], reports.size_bytes[1] + 1, size=count)
    begins = chance.random((reports.types, 2)) * size_m
    steps = chance.normal(size=(count, 2)) * reports.roams_m / np.sqrt(2)
    locations = np.zeros((count, 2))
    for one in range(reports.types):
        mine = types == one
        locations[mine] = folded(begins[one] + np.cumsum(steps[mine], axis=0), size_m)
    return DrawnReports(times_s, types, locations, sizes_bytes)


def folded(locations: Floats, size_m: Floats) -> Floats:
    """Whoever walks straight on turns at the edges of the city.

    >>> folded(np.array([110.0, -10.0, 250.0]), np.array([100.0])).tolist()
    [90.0, 10.0, 50.0]
    """
    within = locations % (2 * size_m)
    return np.where(within <= size_m, within, 2 * size_m - within)
