"""Shuffle policies: everybody anew."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from tocsin.balancing.assignment import AssignedBroker, AssignmentView
from tocsin.balancing.load_table import LoadTable
from tocsin.balancing.proposal import BalancingPolicy, Goal
from tocsin.balancing.shuffle import POLICIES, gsh, hypergraph, sharing, sharing_hypergraph
from tocsin.errors import InvalidValue
from tocsin.testing.assignments import assignment
from worlds.random_assignments import random_assignment

RATES = {"fire": 8.0, "flood": 4.0, "smoke": 2.0, "rain": 1.0}
ALL = sorted(POLICIES)


def test_the_greedy_shuffle_goes_heaviest_first_to_the_least_loaded() -> None:
    """fire to a, flood to b; then smoke to b, being less loaded than a; then rain to b."""
    who = {"ann": ("a", "fire"), "bob": ("a", "flood"), "cid": ("a", "smoke"), "dan": ("a", "rain")}
    view = assignment(who, RATES, ["b"])
    assert gsh(view, Goal()).owners.tolist() == [0, 1, 1, 1]


def test_the_greedy_shuffle_leaves_those_alone_who_are_sent_nothing() -> None:
    """Or all of them would crowd at the broker that is the least loaded at the end."""
    who = {f"s{number}": ("ab"[number % 2], "fire" if number < 4 else "") for number in range(40)}
    view = assignment(who, RATES, ["c"])
    owners = gsh(view, Goal()).owners
    assert [owners[at] == view.owners[at] for at, name in enumerate(view.subscribers) if int(name[1:]) >= 4] == [
        True
    ] * 36


def circles(brokers: int) -> AssignmentView:
    """Forty circles of friends, each with interests of its own, anywhere."""
    draw = np.random.default_rng(1)
    who = {
        f"s{number:04}": (
            f"b{draw.integers(brokers)}",
            " ".join(f"k{number % 40}_{one}" for one in draw.integers(12, size=5)),
        )
        for number in range(1600)
    }
    return assignment(who, {f"k{circle}_{one}": 1.0 + one for circle in range(40) for one in range(12)})


def test_sharing_brings_together_who_hold_the_same() -> None:
    view = circles(8)
    before, greedy = LoadTable.of(view), LoadTable.of(view, gsh(view, Goal()).owners)
    after = LoadTable.of(view, sharing(view, Goal()).owners)
    assert after.loads.sum() < 0.95 * min(before.loads.sum(), greedy.loads.sum())
    assert after.max_score < 0.95 * greedy.max_score


@pytest.mark.parametrize("policy", ALL)
def test_loads_come_out_even(policy: str) -> None:
    """A shuffle leaves scores that differ by less than two per cent of their mean."""
    view = random_assignment(3, subscribers=600, subscriptions=90, brokers=6, each=8)
    scores = LoadTable.of(view, POLICIES[policy](view, Goal()).owners).scores
    assert scores.std() / scores.mean() < 0.02


@pytest.mark.parametrize("policy", ALL)
def test_in_proportion_to_capacity(policy: str) -> None:
    """With brokers of different capacities, each carries its share of the load."""
    capacities = np.array([1.0, 2.0, 3.0, 4.0])
    view = random_assignment(4, subscribers=600, subscriptions=90, brokers=4, each=8, capacities=capacities.tolist())
    loads = LoadTable.of(view, POLICIES[policy](view, Goal()).owners).loads
    assert np.allclose(loads / loads.sum(), capacities / capacities.sum(), rtol=0.1)


@pytest.mark.parametrize("policy", ALL)
def test_closed_brokers_get_nobody_and_the_resting_stay(policy: str) -> None:
    names = [f"s{number:02}" for number in range(40)]
    candidates = ["a", AssignedBroker("closed", takes=False), "open"]
    who = {name: ("a" if number % 2 else "closed", "fire flood") for number, name in enumerate(names)}
    view = assignment(who, RATES, candidates, resting=names[:10])
    owners = POLICIES[policy](view, Goal()).owners
    assert np.array_equal(owners[:10], view.owners[:10])
    assert not np.any((owners == 1) & (view.owners != 1))


@pytest.mark.parametrize("policy", ALL)
def test_nobody_anywhere_and_brokers_all_closed_are_no_trouble(policy: str) -> None:
    assert len(POLICIES[policy](assignment({}, {}, ["a", "b"]), Goal()).owners) == 0
    view = assignment(
        {"ann": ("a", "fire")}, RATES, [AssignedBroker("a", takes=False), AssignedBroker("b", takes=False)]
    )
    assert POLICIES[policy](view, Goal()).owners.tolist() == [0]


@pytest.mark.parametrize("policy", [gsh, sharing])
def test_under_a_budget_those_move_who_gain_most_and_the_highest_never_rises(policy: BalancingPolicy) -> None:
    view = random_assignment(5, subscribers=500, subscriptions=80, brokers=5, each=6)
    before, reached = LoadTable.of(view).max_score, []
    for budget in (0, 5, 50, 250):
        owners = policy(view, Goal(max_moves=budget)).owners
        assert np.count_nonzero(owners != view.owners) <= budget
        reached.append(LoadTable.of(view, owners).max_score)
    assert reached[0] == before
    assert all(more <= less * 1.002 for less, more in pairwise(reached))
    assert reached[-1] < before


def test_a_greedy_shuffle_with_a_small_budget_relieves_the_most_loaded_broker() -> None:
    """Ten moves of a thousand: each takes one of the heaviest off the broker that has most."""
    view = random_assignment(7, subscribers=1000, subscriptions=300, brokers=5, each=6)
    view = replace(view, owners=np.where(np.arange(1000) < 500, 0, view.owners).astype(np.int32))
    before = LoadTable.of(view)
    owners = gsh(view, Goal(max_moves=10)).owners
    moved = np.flatnonzero(owners != view.owners)
    assert len(moved) == 10
    assert set(view.owners[moved].tolist()) == {0}
    assert before.demands[moved].min() > np.median(before.demands)


def test_with_a_budget_for_all_moves_the_greedy_shuffle_is_the_same() -> None:
    view = random_assignment(5, subscribers=500, subscriptions=80, brokers=5, each=6)
    assert np.array_equal(gsh(view, Goal(max_moves=500)).owners, gsh(view, Goal()).owners)


def test_sharing_spares_moves_that_bring_next_to_nothing() -> None:
    """Where everybody holds the same there is nothing to share: greed is a little more even, and moves nearly all."""
    view = random_assignment(8, subscribers=2000, subscriptions=12, brokers=4, each=12)
    greedy = gsh(view, Goal())
    thrifty, strict = (sharing(view, Goal(spare_moves_within=within)) for within in (0.01, 0.0))
    highest = [LoadTable.of(view, one.owners).max_score for one in (greedy, thrifty, strict)]
    moves = [np.count_nonzero(one.owners != view.owners) for one in (greedy, thrifty)]
    assert highest[1] < highest[0] * 1.01
    assert highest[2] <= highest[0]
    assert moves[1] < moves[0] / 2


def test_the_hypergraph_beats_the_search_alone_where_there_are_communities() -> None:
    view = circles(8)
    alone = LoadTable.of(view, sharing(view, Goal()).owners)
    extra = LoadTable.of(view, sharing_hypergraph(view, Goal()).owners)
    assert extra.max_score <= alone.max_score
    assert np.array_equal(extra.owners, sharing_hypergraph(view, Goal()).owners), "the same every time"


def test_what_is_held_everywhere_anyway_is_not_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the library has nothing to do, and would take its time for it."""
    view = random_assignment(9, subscribers=400, subscriptions=6, brokers=3, each=4)
    monkeypatch.setattr(hypergraph, "_library", lambda: pytest.fail("there was nothing to part"))
    assert np.array_equal(sharing_hypergraph(view, Goal()).owners, sharing(view, Goal()).owners)


def test_the_hypergraph_knows_no_budget_and_says_when_the_extra_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    view = random_assignment(6, subscribers=50, subscriptions=20, brokers=3, each=3)
    with pytest.raises(InvalidValue, match="takes no max_moves"):
        sharing_hypergraph(view, Goal(max_moves=3))

    def missing() -> None:
        raise InvalidValue("not installed")

    monkeypatch.setattr(hypergraph, "_library", missing)
    with pytest.raises(InvalidValue, match="not installed"):
        sharing_hypergraph(view, Goal())
