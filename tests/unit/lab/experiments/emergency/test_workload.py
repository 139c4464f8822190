"""The generated course of events."""

import re
from itertools import islice

import pytest

from tocsin.lab.experiments.emergency.city import City
from tocsin.lab.experiments.emergency.schema import CHANNELS, longest_period_s, schema_sql
from tocsin.lab.experiments.emergency.workload import EMERGENCY_TYPES, EmergencyWorkload, record_size_bytes
from worlds.city_crowd import interests, is_inside

CITY = City.generate(1)


@pytest.fixture
def workload() -> EmergencyWorkload:
    return EmergencyWorkload(CITY, users=50, seed=5)


def test_same_seed_same_events() -> None:
    """Two workloads of one seed agree in everything; another seed's differs."""

    def everything(seed: int) -> list[object]:
        workload = EmergencyWorkload(CITY, users=20, seed=seed)
        workload.move_users(30)
        return [
            list(islice(workload.reports(), 50)),
            workload.locations(),
            workload.shelters(),
            interests(workload, 70, seed),
        ]

    assert everything(1) == everything(1)
    assert all(one != other for one, other in zip(everything(1), everything(2), strict=True))


def test_streams_do_not_disturb_each_other() -> None:
    """How far people have walked changes no report."""
    still, moving = (EmergencyWorkload(CITY, users=20, seed=1) for _ in range(2))
    moving.move_users(100)
    assert list(islice(still.reports(), 20)) == list(islice(moving.reports(), 20))


def test_reports_are_as_large_as_they_should_be(workload: EmergencyWorkload) -> None:
    """200 to 700 bytes as JSON, over the whole range, of all eight types, inside the city, with ids of their own."""
    reports = list(islice(workload.reports(), 2000))
    sizes = [record_size_bytes(report) for report in reports]
    assert 200 <= min(sizes) < 220
    assert 680 < max(sizes) <= 700
    assert {report["etype"] for report in reports} == set(EMERGENCY_TYPES)
    assert len(EMERGENCY_TYPES) == 8
    assert all(is_inside(CITY, report["x"], report["y"]) for report in reports)
    assert {report["severity"] for report in reports} == {1, 2, 3, 4, 5}
    assert len({report["id"] for report in reports}) == len(reports)


def test_users_move_inside_the_city(workload: EmergencyWorkload) -> None:
    """Everybody moves within a quarter of an hour, and nobody leaves."""
    seen: dict[str, set[tuple[float, float]]] = {user: set() for user in workload.user_ids}
    for _ in range(17):
        locations = workload.locations()
        assert [user["user_id"] for user in locations] == list(workload.user_ids)
        assert all(is_inside(CITY, user["x"], user["y"]) for user in locations)
        for user in locations:
            seen[user["user_id"]].add((user["x"], user["y"]))
        workload.move_users(60)
    assert all(len(locations) > 1 for locations in seen.values())


def test_shelters(workload: EmergencyWorkload) -> None:
    """Two hundred of them, inside, each with an id and a name of its own."""
    shelters = workload.shelters()
    assert len({shelter["id"] for shelter in shelters}) == len({shelter["name"] for shelter in shelters}) == 200
    assert all(is_inside(CITY, shelter["x"], shelter["y"]) for shelter in shelters)


def test_interests_cover_the_channels_and_coincide(workload: EmergencyWorkload) -> None:
    """Every channel is asked for alike, with exactly its parameters; some ask the same."""
    drawn = interests(workload, 700)
    for channel, parameters in CHANNELS.items():
        mine = [interest for interest in drawn if interest.channel == channel]
        assert len(mine) == 100
        assert all(tuple(interest.parameters) == parameters for interest in mine)
    of_type = [str(interest.parameters) for interest in drawn if interest.channel == "EmergenciesOfType"]
    assert len(set(of_type)) == 8


def test_schema_names_the_channels_and_their_parameters() -> None:
    """The table of channels and the statements say the same."""
    declared = re.findall(r"CHANNEL (\w+) \(([^)]*)\)", schema_sql())
    given = {name: [part for part in text.split(", ") if not part.endswith(" IS USER")] for name, text in declared}
    assert {name: tuple(part.split()[0] for part in parts) for name, parts in given.items()} == CHANNELS


def test_nobody_can_follow_somebody_elses_location() -> None:
    """Where channels join with where people are, the person is filled in by the broker."""
    channels = [one for one in schema_sql().split(";") if " CHANNEL " in one]
    following = [one for one in channels if "UserLocations" in one]
    assert len(following) == 3
    assert all("user_id STRING IS USER" in one for one in following)


def test_periods_are_scaled() -> None:
    """Periods shrink together, to no less than a channel may have."""
    assert re.findall(r"PERIOD (\d+) SECONDS", schema_sql()) == ["10", "20", "10", "10", "30", "10", "30"]
    assert re.findall(r"PERIOD (\d+) SECONDS", schema_sql(0.2)) == ["2", "4", "2", "2", "6", "2", "6"]
    assert set(re.findall(r"PERIOD ([\d.]+) SECONDS", schema_sql(0.001))) == {"0.1"}
    assert longest_period_s(schema_sql()) == 30
