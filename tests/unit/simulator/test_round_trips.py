"""Simulated sites: who is near to whom, and what placement by round trips makes of it."""

from __future__ import annotations

import pytest

from tocsin.errors import InvalidValue
from tocsin.simulator.figures import round_trips, summary
from tocsin.simulator.round_trips import SimulatedRoundTrips
from tocsin.simulator.scenario import Sites
from tocsin.simulator.timeline import Run
from tocsin.simulator.world import simulate
from unit.simulator.scenarios import small

_SITES = "{ round_trips_ms = [[2, 200], [200, 2]], access_ms = [1, 5] }"


def _run(placement: str, **changes: str) -> Run:
    """Brokers have half a minute to find their coordinates before anybody comes."""
    scenario = small(
        **{
            "sites": _SITES,
            "subscribers.login_s": "[40, 60]",
            "subscribers.subscribe_s": "[50, 70]",
            "balancing.placement": f'"{placement}"',
            **changes,
        }
    )
    return simulate(scenario)


def test_brokers_are_at_the_sites_in_turn_and_each_subscriber_is_at_one() -> None:
    found = SimulatedRoundTrips(Sites(round_trips_ms=((2.0, 200.0), (200.0, 2.0)), access_ms=(1.0, 5.0)), 50, seed=1)
    here = [[found.of(subscriber, broker) for broker in range(4)] for subscriber in range(50)]
    assert all(row[0] == row[2] and row[1] == row[3] for row in here)
    assert {round(abs(row[0] - row[1])) for row in here} == {198}
    assert all(3 <= min(row) <= 7 for row in here)
    assert 10 < sum(row[0] < row[1] for row in here) < 40


def test_placement_by_round_trips_puts_people_near_and_chance_does_not() -> None:
    """Nearly everybody within their site, where by chance half of them would be 200 ms away."""
    near, random = _run("nearest-network"), _run("random")
    assert len(near.round_trips_ms) == len(random.round_trips_ms) == 150
    assert round_trips(near)["p95"] < 10
    assert round_trips(random)["p95"] > 200
    (described,) = summary([near])["runs"]
    assert described["figures"]["round_trip_ms"] == round_trips(near)


def test_no_plan_moves_anybody_out_of_reach() -> None:
    """With all load at one site the shuffle would use the other one; within 50 ms it does not."""
    changes = {"balancing.shuffle": '"gsh"', "balancing.gamma": "0.01", "balancing.alpha": "0.01"}
    changes |= {"balancing.every_s": "10", "balancing.shuffle_hits": "1", "balancing.rule": '"plain"'}
    free = _run("nearest-network", **changes)
    bound = _run("nearest-network", **changes, **{"balancing.reach_ms": "50"})
    assert free.totals.migrations
    assert bound.totals.migrations
    assert round_trips(free)["p95"] > 200
    assert round_trips(bound)["p95"] < 10


def test_an_equal_seed_gives_an_equal_run() -> None:
    """Pings are drawn like everything else."""
    assert _run("nearest-network") == _run("nearest-network")


@pytest.mark.parametrize(
    ("sites", "fault"),
    [
        ("{ round_trips_ms = [[2, 200], [200]] }", "has 1 round trips; there are 2 sites"),
        ("{ round_trips_ms = [[2, 200], [100, 2]] }", "differs from the way back"),
        ("{ round_trips_ms = [[2]], access_ms = [5, 1] }", "is the wrong way round"),
        ("{ round_trips_ms = [] }", "length >= 1"),
        ("{ round_trips_ms = [[0]] }", ">= 0.01"),
        ("{ round_trips_ms = [[6000]] }", "<= 5000"),
    ],
)
def test_impossible_sites_are_refused_with_what_is_wrong(sites: str, fault: str) -> None:
    with pytest.raises(InvalidValue, match=fault):
        small(sites=sites)


def test_a_reach_without_sites_is_refused_since_nobody_measures() -> None:
    with pytest.raises(InvalidValue, match="needs"):
        small(balancing__reach_ms="50")
