"""What happens in the city: reports of emergencies, people on the move, shelters, and who wants to know what.

Everything follows from the seed. Records are plain dictionaries, as they are published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from tocsin.lab.experiments.emergency.city import City, Coordinates
from tocsin.lab.experiments.emergency.mobility import Commuter, RoadMap, Roamer
from tocsin.lab.experiments.emergency.schema import CHANNELS

EMERGENCY_TYPES = (
    "chemical_spill", "fire", "flood", "gas_leak", "medical", "power_outage", "storm", "traffic_accident",
)  # fmt: skip

#: A report's size as JSON, as in the papers' evaluation.
REPORT_MIN_BYTES = 200
REPORT_MAX_BYTES = 700

#: Each type has one publisher, who gets about fast enough that its reports come from all over the city.
_PUBLISHER_SPEED_M_PER_S = 150.0
#: Radii that people choose from; few, so that interests coincide and are shared.
_RADII_M = (500.0, 1000.0, 2000.0)

_SENTENCES = (
    "Emergency services are on their way.",
    "Keep windows and doors closed.",
    "Traffic is being diverted around the area.",
    "Stay away from the area until further notice.",
    "Several people need help.",
    "Do not use lifts; leave the building by the stairs.",
    "Switch off gas and electricity before you leave.",
    "The nearest shelters have been opened.",
    "Look after neighbours who cannot leave on their own.",
    "Further information will follow.",
    "Keep the emergency lanes free.",
    "Tap water must be boiled before use.",
)

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Interest:
    """What a subscriber subscribes to."""

    channel: str
    parameters: dict[str, str | float]


class EmergencyWorkload:
    """One seeded course of events in `city`.

    >>> one, other = (EmergencyWorkload(City.generate(1), users=10, seed=7) for _ in range(2))
    >>> next(one.reports()) == next(other.reports())
    True
    """

    def __init__(self, city: City, *, users: int = 400, seed: int = 0) -> None:
        self._city = city
        self._seed = seed
        # One generator per stream, so that how much is taken of one does not change the others.
        self._rngs = {name: Random(f"{seed}/{name}") for name in ("users", "reports", "shelters")}
        rng = self._rngs["users"]
        roads = RoadMap(city)
        self._people = {f"user-{number:06d}": Commuter.settle(roads, rng) for number in range(users)}

    @property
    def user_ids(self) -> tuple[str, ...]:
        return tuple(self._people)

    def locations(self) -> list[Record]:
        """Where everybody is, for the feed `locations`."""
        return [{"user_id": user_id, **_xy(person.location)} for user_id, person in self._people.items()]

    def location_of(self, user_id: str) -> tuple[float, float]:
        location = self._people[user_id].location
        return (location.x, location.y)

    def move_users(self, seconds: float) -> None:
        """Let everybody go on for `seconds`."""
        for person in self._people.values():
            person.advance(seconds, self._rngs["users"])

    def reports(self) -> Iterator[Record]:
        """Reports of emergencies without end, for the feed `reports`."""
        rng = self._rngs["reports"]
        publishers = {etype: Roamer.start(self._city, rng, _PUBLISHER_SPEED_M_PER_S) for etype in EMERGENCY_TYPES}
        number = 0
        while True:
            etype = rng.choice(EMERGENCY_TYPES)
            publishers[etype].advance(rng.uniform(1, 10), rng)
            yield self._report(number, etype, publishers[etype].location, rng)
            number += 1

    def _report(self, number: int, etype: str, location: Coordinates, rng: Random) -> Record:
        severity = rng.randint(1, 5)
        district = self._city.district_at(location).name
        report: Record = {
            "id": f"report-{self._seed}-{number:08d}",
            "etype": etype,
            **_xy(location),
            "severity": severity,
            "message": f"{etype.replace('_', ' ').capitalize()} in {district}, severity {severity}.",
        }
        wanted = rng.randint(REPORT_MIN_BYTES, REPORT_MAX_BYTES)
        while (missing := wanted - record_size_bytes(report)) > 0:
            report["message"] += f" {rng.choice(_SENTENCES)}"[:missing]
        return report

    def shelters(self, count: int = 200) -> list[Record]:
        """Shelters beside roads all over the city."""
        rng = self._rngs["shelters"]
        locations = [self._city.random_location(rng) for _ in range(count)]
        return [
            {
                "id": f"shelter-{number:04d}",
                "name": f"{self._city.district_at(location).name} shelter {number}",
                **_xy(location),
            }
            for number, location in enumerate(locations)
        ]

    def interest(self, channel: str, rng: Random) -> Interest:
        """Something that somebody may want to be told by `channel`; what is near, is near to who subscribes.
        Locations are district centres: many ask the same."""
        choices: dict[str, str | float] = {
            "etype": rng.choice(EMERGENCY_TYPES),
            "radius_m": rng.choice(_RADII_M),
            **_xy(self._city.random_district(rng).centre),
        }
        return Interest(channel, {name: choices[name] for name in CHANNELS[channel]})


def record_size_bytes(record: Record) -> int:
    """The record's size as one line of NDJSON, without the line's end."""
    return len(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode())


def _xy(location: Coordinates) -> dict[str, float]:
    # Centimetres are enough, and keep the records as short as they would be in life.
    return {"x": round(location.x, 2), "y": round(location.y, 2)}
