"""Migration policies: who leaves the most loaded broker, and where they go."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin.balancing.assignment import AssignedBroker, AssignmentView
from tocsin.balancing.load_table import LoadTable
from tocsin.balancing.migration import POLICIES
from tocsin.balancing.proposal import Goal, Proposal
from tocsin.testing.assignments import assignment
from worlds.random_assignments import random_assignment

RATES = {"fire": 8.0, "flood": 4.0, "smoke": 2.0, "rain": 1.0}
ALL = sorted(POLICIES)


def moved(view: AssignmentView, proposal: Proposal) -> dict[str, str]:
    return {
        view.subscribers[number]: view.brokers[proposal.owners[number]]
        for number in np.flatnonzero(proposal.owners != view.owners)
    }


def test_ldm_sends_the_heaviest_to_the_least_loaded() -> None:
    view = assignment(
        {"ann": ("a", "fire"), "bob": ("a", "flood"), "cid": ("a", "smoke"), "dan": ("b", "rain")}, RATES, ["c"]
    )
    assert moved(view, POLICIES["ldm"](view, Goal(max_moves=1))) == {"ann": "c"}


def test_sdm_sends_it_to_where_it_shares_most_if_that_is_below_the_mean() -> None:
    who = {"ann": ("a", "fire"), "bob": ("a", "flood"), "cid": ("a", "smoke"), "dan": ("b", "fire")}
    view = assignment(who, RATES, ["c"], away=["dan"])
    assert moved(view, POLICIES["sdm"](view, Goal(max_moves=1))) == {"ann": "b"}
    crowded = assignment(who | {"eve": ("b", "fire"), "fay": ("b", "fire")}, RATES, ["c"])
    assert moved(crowded, POLICIES["sdm"](crowded, Goal(max_moves=1))) == {"dan": "c"}, (
        "a is not the most loaded any more"
    )


def test_the_next_heaviest_goes_if_the_heaviest_can_not() -> None:
    """Where ann would make the destination as loaded as the source, she stays."""
    rates = {"big": 10.0, "small": 1.0}
    view = assignment({"ann": ("a", "big"), "bob": ("a", "small")}, rates, ["b"])
    assert moved(view, POLICIES["ldm"](view, Goal(max_moves=1))) == {"ann": "b"}
    alone = assignment({"ann": ("a", "big")}, rates, ["b"])
    assert moved(alone, POLICIES["ldm"](alone, Goal())) == {}, "as bad there as here"


def test_a_group_leaves_together() -> None:
    """Alone, nobody of those who hold fire spares the broker the fetching of it."""
    who = dict.fromkeys(("ann", "bob"), ("a", "fire")) | {f"s{number}": ("a", "rain") for number in range(200)}
    view = assignment(who, RATES, ["b"])
    proposal = POLICIES["group"](view, Goal(max_moves=2))
    assert moved(view, proposal) == {"ann": "b", "bob": "b"}
    assert "together" in proposal.reason(0)


def test_a_group_that_frees_less_than_the_heaviest_alone_stays() -> None:
    """Each move should bring most: two who share something small wait until it is their turn."""
    who = dict.fromkeys(("ann", "bob"), ("a", "rain")) | {"cid": ("a", "fire flood")}
    view = assignment(who | {f"s{number}": ("a", "smoke") for number in range(100)}, RATES, ["b"])
    proposal = POLICIES["group"](view, Goal(max_moves=1))
    assert moved(view, proposal) == {"cid": "b"}


@pytest.mark.parametrize("seed", [1, 2])
def test_groups_reach_the_highest_load_of_ldm_with_no_more_moves(seed: int) -> None:
    """Where friends share interests. With as many moves as LDM makes, it goes lower."""
    draw = np.random.default_rng(seed)
    who = {
        f"s{number:04}": (
            f"b{min(int(draw.exponential(2)), 7)}",
            " ".join(f"k{number % 60}_{one}" for one in draw.integers(10, size=5)),
        )
        for number in range(2000)
    }
    view = assignment(who, {f"k{circle}_{one}": 1.0 + one for circle in range(60) for one in range(10)})
    theirs = POLICIES["ldm"](view, Goal()).owners
    budget = int(np.count_nonzero(theirs != view.owners))
    ours = POLICIES["group"](view, Goal(cov_at_most=0.0, max_moves=budget)).owners
    assert np.count_nonzero(ours != view.owners) <= budget
    assert LoadTable.of(view, ours).max_score < LoadTable.of(view, theirs).max_score


@pytest.mark.parametrize("policy", ALL)
def test_an_even_network_is_left_alone(policy: str) -> None:
    """No policy moves anybody where all scores are equal."""
    view = assignment({"ann": ("a", "fire"), "bob": ("b", "fire")}, RATES)
    assert moved(view, POLICIES[policy](view, Goal())) == {}


@pytest.mark.parametrize("policy", ALL)
def test_below_the_mean_that_matters_nothing_is_done(policy: str) -> None:
    view = assignment({f"s{number}": ("a", "fire") for number in range(9)}, RATES, ["b"])
    assert moved(view, POLICIES[policy](view, Goal(mean_above=1000))) == {}
    assert moved(view, POLICIES[policy](view, Goal(mean_above=10))) != {}


@pytest.mark.parametrize("policy", ALL)
def test_it_stops_once_even_enough_or_out_of_budget(policy: str) -> None:
    view = random_assignment(1, subscribers=400, subscriptions=60, brokers=5, each=6, capacities=[1, 1, 1, 1, 9])
    scores = LoadTable.of(view, POLICIES[policy](view, Goal(cov_at_most=0.1)).owners).scores
    assert 0.05 < scores.std() / scores.mean() <= 0.1
    assert 0 < len(moved(view, POLICIES[policy](view, Goal(max_moves=7)))) <= 7
    assert moved(view, POLICIES[policy](view, Goal(max_moves=0))) == {}


@pytest.mark.parametrize("policy", ALL)
def test_closed_brokers_get_nobody_and_the_resting_stay(policy: str) -> None:
    names = [f"s{number}" for number in range(20)]
    view = assignment(
        dict.fromkeys(names, ("a", "fire flood")),
        RATES,
        ["a", AssignedBroker("closed", takes=False), "open"],
        resting=names[:10],
    )
    gone = moved(view, POLICIES[policy](view, Goal()))
    assert gone
    assert set(gone.values()) == {"open"}
    assert not set(gone) & set(names[:10])


@pytest.mark.parametrize("policy", ALL)
def test_larger_brokers_get_more(policy: str) -> None:
    """Loads come out in proportion to capacities, as far as the goal asks for it."""
    view = random_assignment(2, subscribers=500, subscriptions=40, brokers=3, each=4, capacities=[1, 1, 4])
    loads = LoadTable.of(view, POLICIES[policy](view, Goal(cov_at_most=0.05)).owners).loads
    assert loads[2] > 3 * max(loads[0], loads[1])


@pytest.mark.parametrize("policy", ALL)
def test_nobody_anywhere_and_brokers_all_closed_are_no_trouble(policy: str) -> None:
    nobody = assignment({}, {}, ["a", "b"])
    assert len(POLICIES[policy](nobody, Goal()).owners) == 0
    closed = [AssignedBroker("a", takes=False), AssignedBroker("b", takes=False)]
    view = assignment({"ann": ("a", "fire"), "bob": ("a", "flood")}, RATES, closed)
    assert moved(view, POLICIES[policy](view, Goal())) == {}


def test_an_idle_broker_is_filled_though_the_others_are_even() -> None:
    """With fifty even brokers and one that idles, cov alone would not tell."""
    who = {f"s{broker:02}{number}": (f"b{broker:02}", "fire") for broker in range(50) for number in range(9)}
    view = assignment(who, RATES, ["new"])
    assert moved(view, POLICIES["ldm"](view, Goal())) == {}
    after = LoadTable.of(view, POLICIES["ldm"](view, Goal(idle_below=0.3)).owners).scores
    assert after[-1] >= 0.3 * after.mean()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_who_is_sent_nothing_is_not_moved(policy: str) -> None:
    """No load would change. The heavy one has no valid move, so the loop would come to the others."""
    who = {"heavy": ("a", "fire"), **{f"quiet{number}": ("a", "silent") for number in range(20)}}
    view = assignment(who, {"fire": 8.0, "silent": 0.0}, ["b"])
    assert np.array_equal(POLICIES[policy](view, Goal()).owners, view.owners)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_migration_ends_when_the_brokers_that_take_subscribers_are_even(policy: str) -> None:
    """An empty broker that takes nobody stays empty, and calls for no moves among the others."""
    sizes = {"a": 11, "b": 10, "c": 9}
    who = {f"{broker}{number:02}": (broker, f"{broker}{number}") for broker in sizes for number in range(sizes[broker])}
    rates = {key: 1.0 for _, key in who.values()}
    view = assignment(who, rates, [AssignedBroker("shut", takes=False)])
    assert np.array_equal(POLICIES[policy](view, Goal(idle_below=0.1)).owners, view.owners)
