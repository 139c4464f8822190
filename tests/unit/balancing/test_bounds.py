"""Lower bounds: never above what can be reached, and exact where they ought to be."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin.balancing.assignment import AssignedBroker
from tocsin.balancing.bounds import lower_bound, optimum
from tocsin.balancing.load_table import LoadTable
from tocsin.errors import InvalidValue
from tocsin.testing.assignments import assignment
from worlds.random_assignments import random_assignment

RATES = {"fire": 2.0, "flood": 3.0, "smoke": 5.0}


def test_everything_must_be_sent_and_fetched_once() -> None:
    who = {f"s{number}": ("a", "fire") for number in range(100)}
    assert lower_bound(assignment(who, RATES, ["b"])) >= (100 * 2 + 2) / 2


def test_somebody_must_take_the_heaviest() -> None:
    """No assignment has a lower score than the heaviest subscriber alone makes, however many brokers there are."""
    who = {"ann": ("a", "fire flood smoke"), "bob": ("a", "fire")}
    assert lower_bound(assignment(who, RATES, ["b", "c", "d"])) == pytest.approx(2 * 10)


def test_of_more_subscribers_than_brokers_two_meet() -> None:
    rates = {f"k{number}": 10.0 for number in range(3)}
    who = {f"s{number}": ("a", f"k{number}") for number in range(3)}
    assert lower_bound(assignment(who, rates, ["b"])) >= 30
    assert LoadTable.of(assignment(who, rates, ["b"]), np.array([0, 0, 1])).max_score == 40


def test_the_bound_is_a_plain_number_whichever_rule_it_comes_from() -> None:
    """It goes into answers as JSON, which knows no other kind of number."""
    rates = {f"k{number}": 10.0 for number in range(4)}
    who = {f"s{number}": ("a", f"k{number}") for number in range(4)}
    bound = lower_bound(assignment(who, rates, ["b", "c"]))
    assert bound >= 30
    assert type(bound) is float


def test_larger_brokers_carry_more_for_the_same_score() -> None:
    who = {f"s{number}": ("a", "fire") for number in range(100)}
    small = lower_bound(assignment(who, RATES, ["a", "b"]))
    large = lower_bound(assignment(who, RATES, [AssignedBroker("a", 10.0), AssignedBroker("b", 10.0)]))
    assert large == pytest.approx(small / 10)


def test_nobody_there_needs_nothing() -> None:
    """Without subscribers the bound is zero."""
    assert lower_bound(assignment({}, {}, ["a", "b"])) == 0


@pytest.mark.parametrize("seed", range(20))
def test_no_assignment_beats_the_bound(seed: int) -> None:
    """All of them, for networks small enough."""
    capacities = [1.0, 1.0] if seed % 2 else [1.0, 2.5]
    view = random_assignment(seed, subscribers=7, subscriptions=4, brokers=2, each=3, capacities=capacities)
    best = optimum(view)
    assert lower_bound(view) <= best * (1 + 1e-9)
    assert lower_bound(view) >= best / 2, "of little use otherwise"


def test_the_optimum_is_the_best_of_all_for_those_who_may_move_and_where_they_may() -> None:
    rates = {"big": 10.0, "small": 4.0}
    who = {"ann": ("a", "big"), "bob": ("a", "small"), "cid": ("a", "small")}
    assert optimum(assignment(who, rates, ["b"])) == 20
    assert optimum(assignment(who, rates, ["b"], resting=["ann", "bob"])) == 28
    assert optimum(assignment(who, rates, [AssignedBroker("b", takes=False)])) == 32
    with pytest.raises(InvalidValue, match="30 subscribers at 2 brokers are too many"):
        optimum(random_assignment(1, subscribers=30, subscriptions=4, brokers=2, each=2))
