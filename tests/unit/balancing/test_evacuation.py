"""Brokers that are leaving: who has to go, and where."""

from __future__ import annotations

from tocsin.balancing.assignment import AssignedBroker, AssignmentView
from tocsin.balancing.evacuation import NAME, evacuate
from tocsin.coordinator.load.plan import make_plan, verify
from tocsin.coordinator.load.stages import Stage
from tocsin.coordinator.registry.records import SessionRecord
from unit.coordinator.network import held

_BROKERS = [AssignedBroker("a", takes=False), AssignedBroker("b"), AssignedBroker("c", 2.0)]


def _view(*sessions: SessionRecord) -> AssignmentView:
    return AssignmentView.of(_BROKERS, sessions, lambda _: 10.0, leaving={"a"})


def test_everybody_goes_also_who_is_away_and_nobody_else_does() -> None:
    view = _view(
        SessionRecord("here", "a", 1, True, held("fire")),
        SessionRecord("away", "a", 1, False, held("fire", "flood")),
        SessionRecord("idle", "a", 1, True),
        SessionRecord("gone", "a", 1, False),
        SessionRecord("other", "b", 1, True, held("fire")),
    )
    plan = make_plan(view, Stage.EVACUATION, NAME, evacuate(view))
    assert not verify(view, plan)
    assert {move.subscriber for move in plan.moves()} == {"here", "away", "idle"}
    assert all(move.destination in {"b", "c"} for move in plan.moves())


def test_capacities_count() -> None:
    """A broker of twice the capacity takes twice as many of those who leave."""
    crowd = [SessionRecord(f"s{number}", "a", 1, True, held(f"k{number}")) for number in range(30)]
    view = _view(*crowd)
    plan = make_plan(view, Stage.EVACUATION, NAME, evacuate(view))
    destinations = [move.destination for move in plan.moves()]
    assert destinations.count("c") == 2 * destinations.count("b")


def test_those_for_whom_nothing_comes_are_spread_over_the_brokers() -> None:
    """They add no load anywhere: by the load alone, all of them would go to the least loaded broker."""
    crowd = [SessionRecord(f"s{number}", "a", 1, True, held(f"k{number}")) for number in range(30)]
    busy = SessionRecord("busy", "b", 1, True, held("fire"))
    view = AssignmentView.of(_BROKERS, [*crowd, busy], lambda key: 10.0 * ("fire" in key), leaving={"a"})
    plan = make_plan(view, Stage.EVACUATION, NAME, evacuate(view))
    destinations = [move.destination for move in plan.moves()]
    assert (destinations.count("b"), destinations.count("c")) == (10, 20)


def test_with_nowhere_to_go_they_stay() -> None:
    """If no broker takes anybody, the plan is empty."""
    view = AssignmentView.of(
        [AssignedBroker("a", takes=False)],
        [SessionRecord("s", "a", 1, True, held("fire"))],
        lambda _: 1.0,
        leaving={"a"},
    )
    assert not make_plan(view, Stage.EVACUATION, NAME, evacuate(view)).move_count
