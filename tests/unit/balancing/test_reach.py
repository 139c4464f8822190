"""The reach of subscribers: which brokers are in it, and that no policy leads out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tocsin.balancing.assignment import AssignedBroker, AssignmentView
from tocsin.balancing.evacuation import evacuate
from tocsin.balancing.migration import POLICIES as MIGRATIONS
from tocsin.balancing.proposal import BalancingPolicy, Goal
from tocsin.balancing.reach import within_reach
from tocsin.balancing.shuffle import POLICIES as SHUFFLES
from tocsin.coordinates.coordinate import DIMENSIONS, Coordinate, estimate_ms
from tocsin.coordinates.located import Located
from tocsin.coordinator.load.plan import changed_since, make_plan, verify
from tocsin.coordinator.load.stages import Stage
from tocsin.coordinator.registry.records import SessionRecord
from tocsin.errors import InvalidValue
from unit.coordinator.network import held

_POLICIES = {**MIGRATIONS, **{name: one for name, one in SHUFFLES.items() if name != "sharing-hypergraph"}}


def _at(x_ms: float, adjustment_ms: float = 0.0) -> Coordinate:
    return Coordinate((x_ms, *[0.0] * (DIMENSIONS - 1)), 1.0, adjustment_ms)


def _reach(reach_ms: float | None, located: Mapping[str, Located]) -> list[list[bool]]:
    """Of ann at a, and bob at b; c has told no coordinate."""
    brokers, subscribers = ["a", "b", "c"], ["ann", "bob"]
    owners, coordinates = np.array([0, 1], np.int32), {"a": _at(0), "b": _at(100)}
    return within_reach(reach_ms, brokers, subscribers, owners, located.get, coordinates).tolist()


def test_without_a_limit_nothing_is_out_of_reach() -> None:
    assert _reach(None, {"ann": Located(_at(0))}) == []


def test_what_was_measured_counts_and_else_what_is_estimated() -> None:
    """Who has told no coordinate is not limited, nor is anybody by a broker that nothing is known of."""
    assert _reach(50, {}) == [[True] * 3] * 2
    assert _reach(50, {"ann": Located(_at(0))}) == [[True, False, True], [True] * 3]
    assert _reach(50, {"ann": Located(_at(0), {"b": 30.0, "c": 70.0, "x": 1.0})}) == [[True, True, False], [True] * 3]


def test_where_somebody_is_stays_within_reach() -> None:
    """However far away that is: to stay is always allowed."""
    assert _reach(50, {"ann": Located(_at(100), {"a": 500.0})}) == [[True, True, True], [True] * 3]


def test_estimates_are_those_of_coordinates() -> None:
    """Also with adjustments, and for more subscribers than are looked at together."""
    rng = np.random.default_rng(1)
    count = 5000
    located = {
        f"s{one}": Located(Coordinate(tuple(rng.uniform(-50, 50, DIMENSIONS)), 1.0, float(rng.uniform(-200, 5))))
        for one in range(count)
    }
    brokers = {"a": _at(0, -3), "b": _at(40, 2)}
    found = within_reach(60, list(brokers), list(located), np.zeros(count, np.int32), located.get, brokers)
    wanted = [estimate_ms(one.coordinate, brokers["b"]) <= 60 for one in located.values()]
    assert found[:, 1].tolist() == wanted
    assert 0.1 < np.mean(wanted) < 0.9


def _two_sites(reach_ms: float | None = 40) -> AssignmentView:
    """East and west have two brokers each, and east-1 has far too many subscribers; a third of them are nowhere."""
    brokers = [
        AssignedBroker("east-1", coordinate=_at(0)),
        AssignedBroker("east-2", coordinate=_at(10)),
        AssignedBroker("west-1", coordinate=_at(200)),
        AssignedBroker("west-2", coordinate=_at(210)),
    ]
    sessions = [
        SessionRecord(f"s{number:03}", "west-1" if number % 10 == 0 else "east-1", 1, True, held(f"k{number % 50}"))
        for number in range(120)
    ]
    located = {
        one.subscriber: Located(_at(5.0 if one.owner == "east-1" else 205.0))
        for number, one in enumerate(sessions)
        if number % 3
    }
    return AssignmentView.of(brokers, sessions, lambda _: 1.0, reach_ms=reach_ms, located_of=located.get)


@pytest.mark.parametrize("name", sorted(_POLICIES))
@pytest.mark.parametrize("max_moves", [None, 30])
def test_no_policy_leads_out_of_reach_and_loads_are_evened_out_within(name: str, max_moves: int | None) -> None:
    """Without the limit, the same policy moves some of them to the other site."""
    policy: BalancingPolicy = _POLICIES[name]
    goal = Goal(max_moves=max_moves)
    view, free = _two_sites(), _two_sites(None)
    stage = Stage.SHUFFLE if name in SHUFFLES else Stage.MIGRATION
    plan = make_plan(view, stage, name, policy(view, goal))
    assert plan.move_count
    owners = plan.proposal.owners
    assert all(view.within_reach[row, owner] for row, owner in enumerate(owners))
    assert not [fault for fault in verify(view, plan) if "reach" in fault]
    assert plan.after.max < 0.85 * plan.before.max
    freely = policy(free, goal).owners
    assert not all(view.within_reach[row, owner] for row, owner in enumerate(freely))


def _leaving(*sessions: SessionRecord, far: str = "") -> AssignmentView:
    brokers = [
        AssignedBroker("a", takes=False),
        AssignedBroker("b", coordinate=_at(10)),
        AssignedBroker("c", coordinate=_at(300)),
    ]
    located = {one.subscriber: Located(_at(900.0 if one.subscriber == far else 0.0)) for one in sessions}
    return AssignmentView.of(brokers, sessions, lambda _: 1.0, leaving={"a"}, reach_ms=40, located_of=located.get)


def test_an_evacuation_keeps_to_the_reach_and_says_how_many_can_go_nowhere() -> None:
    crowd = [SessionRecord(f"s{number}", "a", 1, True, held("fire")) for number in range(9)]
    view = _leaving(*crowd, far="s4")
    plan = make_plan(view, Stage.EVACUATION, "", evacuate(view))
    assert {(move.subscriber, move.destination) for move in plan.moves()} == {
        (one.subscriber, "b") for one in crowd if one.subscriber != "s4"
    }
    assert plan.confined == 1
    assert not verify(view, plan)


def test_a_plan_that_leads_out_of_reach_is_refused() -> None:
    """`verify` looks at each move itself; and a plan that was kept is not carried out once somebody is too far away."""
    view = _leaving(SessionRecord("ann", "a", 1, True, held("fire")))
    plan = make_plan(view, Stage.EVACUATION, "", replace(evacuate(view), owners=np.array([2], np.int32)))
    assert verify(view, plan) == ["c is out of reach of ann"]
    good = make_plan(view, Stage.EVACUATION, "", evacuate(view))
    gone = _leaving(SessionRecord("ann", "a", 1, True, held("fire")), far="ann")
    assert changed_since(good, view) == []
    assert changed_since(good, gone) == ["b is out of reach of ann by now"]


def test_a_reach_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidValue, match="within reach"):
        replace(_two_sites(), within_reach=np.ones((3, 2), np.bool_))
