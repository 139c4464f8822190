"""Plans are values with reasons; `verify` finds what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tocsin.balancing.assignment import AssignedBroker, AssignmentView
from tocsin.balancing.evenness import Balance
from tocsin.balancing.proposal import Proposal
from tocsin.coordinator.load.plan import Move, Plan, changed_since, make_plan, verify
from tocsin.coordinator.load.stages import Stage
from tocsin.coordinator.registry.records import SessionRecord
from tocsin.testing.assignments import assignment
from unit.coordinator.network import held

RATES = {"fire": 8.0, "flood": 4.0}
VIEW = assignment(
    {"ann": ("a", "fire"), "bob": ("a", "flood"), "cid": ("b", "flood"), "dan": ("a", "flood")},
    RATES,
    ["a", "b", AssignedBroker("closed", takes=False)],
    resting=["dan"],
)


def plan(*owners: int) -> Plan:
    return make_plan(VIEW, Stage.MIGRATION, "mine", Proposal(np.array(owners, np.int32), ("because",)))


def test_a_plan_says_who_moves_where_why_and_what_it_brings() -> None:
    one = plan(0, 1, 1, 0)
    assert list(one.moves()) == [Move("bob", "a", "b", 4.0, "because")]
    assert one.before == Balance(("a", "b", "closed"), (12.0 + 16, 8.0, 0.0), (28.0, 8.0, 0.0), (True, True, False))
    assert one.after.loads == (12.0 + 12, 4.0 + 8, 0.0)
    assert (one.move_count, one.after.max, one.after.total) == (1, 24.0, 36.0)
    assert one.lower_bound <= 24
    assert one.gap == 24 / one.lower_bound
    assert verify(VIEW, one) == []


#: Made in the test: to load the compiled loops takes half a second, which processes with other tests can spare.
_SPOILT: dict[str, Callable[[Plan], Plan]] = {
    "closed takes no subscribers, but bob is to go there": lambda _: plan(0, 2, 1, 0),
    "dan may not be moved": lambda _: plan(0, 0, 1, 1),
    "twice": lambda one: replace(one, movers=np.array([1, 1]), destinations=np.array([1, 1]), mover_loads=np.ones(2)),
    "bob is to move to its own broker": lambda one: replace(one, destinations=np.array([0])),
    "without a reason": lambda one: replace(one, proposal=Proposal(np.array([0, 1, 1, 0], np.int32), ("",))),
    "a's load before is 28, not 27": lambda one: replace(one, before=Balance.of(VIEW.brokers, [27, 8, 0], [1, 1, 1])),
    "b's load after is 12, not 11": lambda one: replace(one, after=Balance.of(VIEW.brokers, [24, 11, 0], [1, 1, 1])),
    "the lower bound 25.0 is above": lambda one: replace(one, lower_bound=25.0),
    "the plan is for brokers x": lambda one: replace(one, before=Balance.of(("x",), (1.0,), (1.0,))),
}


@pytest.mark.parametrize("fault", _SPOILT)
def test_whatever_is_wrong_with_a_plan_is_found(fault: str) -> None:
    wrong = _SPOILT[fault](plan(0, 1, 1, 0))
    assert any(fault in one for one in verify(VIEW, wrong)), verify(VIEW, wrong)


def test_a_plan_that_is_worse_than_before_is_found_out() -> None:
    """Nobody is disturbed for nothing: the most loaded broker has no more than the most loaded had before."""
    view = assignment({"ann": ("a", "fire"), "bob": ("b", "fire flood"), "cid": ("a", "flood")}, RATES, ["a", "b"])
    crowded = make_plan(view, Stage.MIGRATION, "mine", Proposal(np.array([1, 1, 0], np.int32), ("because",)))
    assert verify(view, crowded) == ["it is worse than before: the highest score rises from 24 to 32"]
    assert verify(view, replace(crowded, stage=Stage.SHUFFLE))
    # What a policy says of its own plan does not count.
    claimed = replace(crowded, after=replace(crowded.after, scores=(0.0, 0.0)))
    assert any("worse than before" in fault for fault in verify(view, claimed))
    assert verify(view, replace(crowded, stage=Stage.EVACUATION)) == [], "a broker that has to be emptied is emptied"


def test_capacities_count_in_what_is_worse() -> None:
    """A broker of twice the capacity may be sent twice as much."""
    locations = [AssignedBroker("a"), AssignedBroker("b", 10.0)]
    view = assignment({"ann": ("a", "fire"), "bob": ("b", "fire flood")}, RATES, locations)
    better = make_plan(view, Stage.MIGRATION, "mine", Proposal(np.array([1, 1], np.int32), ("because",)))
    assert better.after.loads[1] > better.before.loads[1] > better.before.loads[0]
    assert verify(view, better) == []


def test_a_plan_for_another_state_is_found_out() -> None:
    later = replace(VIEW, owners=np.array([0, 1, 1, 0], np.int32))
    assert "bob is not at a" in verify(later, plan(0, 1, 1, 0))
    without_bob = assignment({"ann": ("a", "fire")}, RATES, ["a", "b", AssignedBroker("closed", takes=False)])
    assert "bob is to move but has no session" in verify(without_bob, plan(0, 1, 1, 0))


def test_what_has_changed_since_a_plan_was_made() -> None:
    """Who is elsewhere by now, is gone or holds something else; rates may differ."""

    def view(*sessions: SessionRecord, brokers: str = "ab", rate: float = 10.0) -> AssignmentView:
        return AssignmentView.of([AssignedBroker(name) for name in brokers], sessions, lambda _: rate)

    ann = SessionRecord("ann", "a", 1, True, held("fire"))
    bob = SessionRecord("bob", "a", 1, True, held("flood"))
    before = view(ann, bob)
    made = make_plan(before, Stage.MIGRATION, "x", Proposal(np.array([1, 0], np.int32), ("because",)))
    assert not changed_since(made, view(ann, bob, rate=11.0))
    assert not changed_since(made, view(ann, replace(bob, owner="b"))), "bob is not to move"
    assert changed_since(made, view(replace(ann, owner="b"), bob)) == ["ann is at b by now"]
    assert changed_since(made, view(bob)) == ["ann has no session any more"]
    assert changed_since(made, view(replace(ann, subscriptions=held("fire", "flood")), bob)) == [
        "ann has subscribed or unsubscribed since"
    ]
    assert changed_since(made, view(ann, bob, brokers="abc")) == ["brokers have come, gone or changed their states"]
