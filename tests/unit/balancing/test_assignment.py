"""The frozen view: names in order, the rest by number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tocsin.balancing.assignment import AssignedBroker, AssignmentView
from tocsin.coordinator.registry.records import SessionRecord, SessionSubscription
from tocsin.errors import InvalidValue
from tocsin.protocol.subscription_keys import KeyText
from tocsin.testing.assignments import assignment

WHO = {"ann": ("a", "fire flood"), "bob": ("b", "fire"), "cid": ("a", "smoke")}
RATES = {"fire": 2.0, "flood": 3.0, "smoke": 5.0}


def test_the_order_in_which_things_are_listed_makes_no_difference() -> None:
    here = assignment(WHO, RATES, ["c", "a"])
    there = assignment(dict(reversed(WHO.items())), RATES, ["a", "c"])
    for name in here.__dataclass_fields__:
        assert np.array_equal(getattr(here, name), getattr(there, name)), name
    assert here.brokers == ("a", "b", "c")
    assert here.subscribers == ("ann", "bob", "cid")
    assert here.owners.tolist() == [0, 1, 0]
    assert here.holds.tolist() == [0, 1, 0, 2]
    assert here.rates.tolist() == [2, 3, 5]


def test_what_one_subscriber_holds_twice_counts_once() -> None:
    twice = SessionRecord(
        "ann", "a", 1, True, (SessionSubscription(KeyText("fire"), "1-1"), SessionSubscription(KeyText("fire"), "1-2"))
    )
    view = AssignmentView.of([AssignedBroker("a")], [twice], lambda _: 1.0)
    assert view.holds.tolist() == [0]


def test_sessions_of_brokers_that_are_gone_are_left_out() -> None:
    stray = SessionRecord("ann", "gone", 1, True)
    assert AssignmentView.of([AssignedBroker("a")], [stray], lambda _: 1.0).subscribers == ()


def test_only_those_who_are_here_and_rested_may_be_moved() -> None:
    view = assignment(WHO, RATES, away=["bob"], resting=["cid"])
    assert view.connected.tolist() == [True, False, True]
    assert view.movable.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"brokers": ()}, "at least one broker"),
        ({"capacities": np.array([1.0, 0.0])}, "capacity above 0"),
        ({"capacities": np.array([1.0])}, "capacity above 0"),
        ({"rates": np.array([1.0, -1.0, 1.0])}, "rate of 0 or more"),
        ({"rates": np.array([1.0, np.nan, 1.0])}, "rate of 0 or more"),
        ({"owners": np.array([0, 2, 0], np.int32)}, "owners are numbers from 0 to 1"),
        ({"owners": np.array([0], np.int32)}, "needs an owner"),
        ({"holds": np.array([0, 1, 0, 3], np.int32)}, "holds are numbers from 0 to 2"),
    ],
)
def test_what_does_not_fit_together_is_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidValue, match=complaint):
        replace(assignment(WHO, RATES), **change)
