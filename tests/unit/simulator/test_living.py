"""A living city: people on their ways, and reports that subscriptions match, burst by burst."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin.errors import InvalidValue
from tocsin.simulator.figures import carried_cov, carried_max, moves_per_person_hour, promise_kept
from tocsin.simulator.living import DrawnReports, LivingCity, Ways, draw_city
from tocsin.simulator.reading import load
from tocsin.simulator.scenario import Matching
from tocsin.simulator.world import simulate

SMALL = {"subscribers.count": "60", "brokers.count": "3", "duration_s": "1500"}
SIZE_M = np.array([8300.0, 7300.0])


def test_everybody_is_in_the_city_at_any_time_and_nobody_jumps() -> None:
    scenario = load("living-city", SMALL)
    ways = draw_city(scenario, SIZE_M, 1).ways
    assert ways is not None
    before = ways.locations(0.0)
    for now_s in range(1, 1500):
        now = ways.locations(float(now_s))
        assert ((now >= 0) & (now <= SIZE_M)).all()
        assert np.linalg.norm(now - before, axis=1).max() <= 14 + 1e-6
        before = now
    assert (np.linalg.norm(before - ways.locations(0.0), axis=1) > 100).mean() > 0.5, "most have gone somewhere"
    assert ways.location(7, 100.0).tolist() == ways.locations(100.0)[7].tolist()


def test_a_seed_makes_the_same_city() -> None:
    """Another seed makes another one, with about as many reports."""
    scenario = load("living-city", SMALL)
    one, same, other = (draw_city(scenario, SIZE_M, seed) for seed in (1, 1, 2))
    assert one.reports is not None
    assert same.reports is not None
    assert other.reports is not None
    assert one.reports.locations.tolist() == same.reports.locations.tolist()
    assert one.reports.locations[:10].tolist() != other.reports.locations[:10].tolist()
    assert abs(len(one.reports.times_s) / (5.5 * 1500) - 1) < 0.1


def test_subscriptions_match_what_is_near_of_their_type_and_new() -> None:
    """By person, then by radius, then by type; reports up to the last run count no more."""
    here = np.array([[0.0, 0.0], [1000.0, 0.0]])
    ways = Ways(np.array([[0.0, 1e9]] * 2), np.stack([here, here], axis=1))
    reports = DrawnReports(
        np.array([5.0, 11.0, 12.0, 20.0, 21.0]),
        np.array([0, 0, 1, 0, 1]),
        np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 300.0], [1000.0, 0.0], [0.0, 0.0]]),
        np.array([1, 10, 100, 1000, 10000]),
    )
    city = LivingCity(np.array([[1000.0, 0.0]]), ways, reports, 2)
    near = Matching(where="person", radii_m=(200.0, 500.0))
    assert city.matched_bytes(near, 10, 20).tolist() == [10, 110, 1000, 1000]
    near = Matching(where="person", radii_m=(200.0, 500.0), by_type=True, results=2)
    assert city.matched_bytes(near, 10, 20).tolist() == [20, 0, 20, 200, 2000, 0, 2000, 0]
    assert city.matched_bytes(Matching(by_type=True), 10, 20).tolist() == [1010, 100]
    at_location = Matching(where="location", radii_m=(950.0,))
    assert city.matched_bytes(at_location, 10, 20).tolist() == [1010]


def test_both_ways_of_counting_deliveries_agree_in_a_living_city() -> None:
    scenario = load("living-city", {**SMALL, "duration_s": "700"})
    summed, single = simulate(scenario, seed=3), simulate(scenario, seed=3, mode="single")
    assert summed == single
    assert summed.totals.deliveries > 1000


def test_a_living_city_has_figures_that_do_not_depend_on_how_rates_are_estimated() -> None:
    """Without plans, the counted cov and load are the same whatever the rates; the modelled ones are not."""
    nothing = {**SMALL, "balancing.migration": '""', "balancing.shuffle": '""'}
    lasting, window = (
        simulate(load("living-city", {**nothing, "balancing.rates": one})) for one in ("lasting", "window")
    )
    assert lasting.samples[-1].scores != window.samples[-1].scores
    assert carried_cov(lasting, 600) == carried_cov(window, 600) > 0
    assert carried_max(lasting, 600) == carried_max(window, 600) > 0
    assert moves_per_person_hour(lasting) == 0
    assert promise_kept(lasting) == {"plans": 0, "promised_cov": None, "kept_cov": None}


def test_plans_tell_what_they_promised_and_what_came_of_it() -> None:
    run = simulate(load("living-city", {**SMALL, "balancing.rule": "plain"}))
    kept = promise_kept(run)
    assert kept["plans"]
    assert kept["promised_cov"] is not None
    assert kept["kept_cov"] is not None
    assert moves_per_person_hour(run) == pytest.approx(run.totals.migrations / 60 / (1500 / 3600), rel=0.25)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"city.districts": "0"}, "the city needs districts"),
        ({"subscribers.journeys": "null_"}, "journeys"),
        ({"channels.0.reports": "{ where = 'person' }"}, "radii_m"),
        ({"channels.0.rate": "{ mean_bytes_per_s = 1 }"}, "needs either rate or reports"),
        ({"reports.size_bytes": "[9, 3]"}, "the wrong way round"),
        ({"subscribers.subscriptions": "[1, 9]"}, "is more than the 3 that some channel has"),
    ],
)
def test_impossible_cities_are_refused_by_name(changes: dict[str, str], fault: str) -> None:
    """The error names the key and what is missing."""
    with pytest.raises(InvalidValue, match=fault):
        load("living-city", changes)
