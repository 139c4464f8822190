"""What a scenario and a seed come to."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin.simulator.interests import areas
from tocsin.simulator.workload import Workload, draw
from unit.simulator.scenarios import small


def rows(workload: Workload) -> list[list[int]]:
    offsets = workload.offsets
    return [workload.holds[offsets[at] : offsets[at + 1]].tolist() for at in range(workload.subscribers)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"subscribers__popularity": "zipf", "subscribers__exponent": "2.5", "subscribers__subscriptions": "[0, 80]"},
        {
            "subscribers__popularity": "communities",
            "subscribers__groups": "7",
            "subscribers__subscriptions": "[20, 20]",
        },
        {"subscribers__channels": "[1, 3]", "subscribers__subscriptions": "[20, 20]"},
    ],
)
def test_everybody_wants_as_many_different_subscriptions_as_it_should(changes: dict[str, str]) -> None:
    scenario = small(**changes)
    low, high = scenario.subscribers.subscriptions
    most_channels = scenario.subscribers.channels[1] if scenario.subscribers.channels else 1
    for row in rows(draw(scenario, 3)):
        assert row == sorted(set(row))
        assert low <= len(row) <= high * most_channels
        assert all(0 <= one < 80 for one in row)


def test_with_channels_everybody_keeps_to_so_many() -> None:
    workload = draw(small(subscribers__channels="[1, 2]", subscribers__subscriptions="[3, 3]"), 1)
    for row in rows(workload):
        channels = np.searchsorted(workload.bounds, row, side="right")
        assert set(np.unique(channels, return_counts=True)[1].tolist()) == {3}
        assert len(set(channels.tolist())) in (1, 2)


def test_communities_want_their_own() -> None:
    """With nobody wanting anything from outside, no two communities share a subscription."""
    alone = {"subscribers__popularity": "communities", "subscribers__groups": "8", "subscribers__inside": "1.0"}
    held = rows(draw(small(**alone), 1))
    groups = [set().union(*held[group::8]) for group in range(8)]
    assert all(first.isdisjoint(second) for at, first in enumerate(groups) for second in groups[:at])


def test_neighbours_want_the_same_and_those_far_away_do_not() -> None:
    """With `local`, an area's part of the subscriptions is of as few channels as can be."""
    alone = {"subscribers__popularity": "local", "subscribers__groups": "4", "subscribers__inside": "1.0"}
    workload = draw(small(**alone), 1)
    living_in = areas(workload.locations, workload.size_m, 4)
    held = rows(workload)
    for area in range(4):
        wanted = set().union(*(held[at] for at in np.flatnonzero(living_in == area)))
        assert wanted <= set(range(20 * area, 20 * (area + 1)))


def test_zipf_has_favourites_and_uniform_has_none() -> None:
    for popularity, is_skewed in (("zipf", True), ("uniform", False)):
        counts = np.bincount(draw(small(subscribers__popularity=popularity), 1).holds, minlength=80)
        assert bool(counts.max() > 4 * counts.mean()) is is_skewed


def test_a_change_of_one_knob_redraws_no_other() -> None:
    before = draw(small(), 1)
    after = draw(small(subscribers__speed_m_per_s="5", subscribers__mean_online_s="9", fluctuation__share="0.5"), 1)
    for kept in ("holds", "locations", "rates_bytes_per_s"):
        assert np.array_equal(getattr(before, kept), getattr(after, kept))
    assert np.array_equal(before.subscribing.times_s, after.subscribing.times_s)


def test_another_seed_draws_everything_anew() -> None:
    """Interests and locations alike."""
    first, second = draw(small(), 1), draw(small(), 2)
    assert not np.array_equal(first.holds[:50], second.holds[:50])
    assert not np.array_equal(first.locations, second.locations)


def test_rates_rise_and_fall_back_as_told() -> None:
    settings = {"fluctuation__share": "0.25", "fluctuation__every_s": "50", "fluctuation__rises_within_s": "10"}
    steps = draw(small(**settings, fluctuation__falls_after_s="[20, 30]"), 1).rate_steps
    assert len(steps.times_s) == 2 * 20 * 4
    assert (np.diff(steps.times_s) >= 0).all()
    for backend in range(80):
        own = steps.backends == backend
        times_s, directions = steps.times_s[own], steps.steps[own]
        assert directions.tolist() == [1, -1] * (len(times_s) // 2)
        assert ((np.diff(times_s)[::2] >= 20) & (np.diff(times_s)[::2] <= 30)).all()


def test_walkers_stay_in_the_city() -> None:
    """However fast they walk, and each has another location at each time."""
    workload = draw(small(subscribers__speed_m_per_s="100"), 1)
    locations = np.array([workload.location(one, now_s) for one in range(20) for now_s in (0.0, 333.0, 9999.0)])
    assert ((locations >= 0) & (locations <= 20_000)).all()
    assert len(np.unique(locations, axis=0)) == 60


def test_people_come_and_go_in_turns() -> None:
    """Everybody logs out after each login, except perhaps after the last."""
    workload = draw(small(subscribers__mean_online_s="20", subscribers__mean_offline_s="5"), 1)
    for one in range(20):
        came = workload.logins.times_s[workload.logins.subscribers == one]
        left = workload.logouts.times_s[workload.logouts.subscribers == one]
        assert len(came) - len(left) in (0, 1)
        assert (came[: len(left)] < left).all()


def test_rates_change_in_some_channels_only() -> None:
    """A seed picks the channels; a quarter of their subscriptions is chosen, and none of the others."""
    settings = {"fluctuation__share": "0.25", "fluctuation__every_s": "50", "fluctuation__channels": "1"}
    picked = set()
    for seed in range(6):
        workload = draw(small(**settings), seed)
        channels = set(np.searchsorted(workload.bounds, workload.rate_steps.backends, side="right").tolist())
        assert len(channels) == 1
        picked |= channels
    assert len(picked) > 1
