"""Carrying plans out: limits, orders, stopping, and going on after a crash."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tocsin.coordinator.moves.execution import Execution, MoveLimits
from tocsin.coordinator.moves.table import MoveRecord, PlanRun, Step
from tocsin.coordinator.registry.records import SessionRecord
from tocsin.errors import InUse, NotFound
from unit.coordinator.network import held
from worlds.moving import FakeNetwork


def crowd(subscribers: int) -> FakeNetwork:
    """All of them at `a`."""
    names = [f"s{number}" for number in range(subscribers)]
    return FakeNetwork.of("abc", [SessionRecord(name, "a", 1, True, held("fire")) for name in names])


def moves(count: int, destination: str = "b") -> list[MoveRecord]:
    return [MoveRecord("p", number, f"s{number}", "a", destination, 10.0, "because") for number in range(count)]


def run(count: int, plan: str = "p") -> PlanRun:
    return PlanRun(plan, "migration", "ldm", "", "me", count)


def begun(world: FakeNetwork, count: int, limits: MoveLimits | None = None) -> Execution:
    execution = Execution(0.0, limits or MoveLimits())
    execution.begin(run(count), moves(count))
    execution.advance(0.0, world)
    return execution


def ordered(execution: Execution, broker: str, now_s: float, step: Step) -> list[str]:
    """Those whom a broker gets orders about now, for this step."""
    return [move.subscriber for move in execution.orders(broker, now_s)[step]]


def test_prepare_then_move_then_done() -> None:
    """The source is told only when the destination is prepared, and the plan ends with its last move."""
    world = crowd(1)
    execution = begun(world, 1)
    assert ordered(execution, "b", 0.0, Step.PREPARING) == ["s0"]
    assert ordered(execution, "a", 0.0, Step.MOVING) == []
    execution.prepared("b", ["s0"])
    execution.advance(0.1, world, "b")
    assert [(one.subscriber, one.destination) for one in execution.orders("a", 0.1)[Step.MOVING]] == [("s0", "b")]
    assert execution.destination_of("s0") == "b"
    world.claim("s0", "b")
    progress = execution.advance(0.2, world, "b")
    assert [(move.step, took_s) for move, took_s in progress.moves] == [(Step.DONE, 0.2)]
    assert [one.state for one in progress.ended] == ["done"]
    assert not execution.runs


def test_orders_are_given_again_only_after_a_while() -> None:
    execution = begun(crowd(1), 1)
    assert ordered(execution, "b", 0.0, Step.PREPARING)
    assert not ordered(execution, "b", 1.9, Step.PREPARING)
    assert ordered(execution, "b", 2.0, Step.PREPARING)


def test_so_many_at_a_time_and_so_many_a_second() -> None:
    world = crowd(100)
    execution = begun(world, 100, MoveLimits(in_flight=10, per_s=1000))
    assert execution.under_way == 10
    slow = begun(crowd(100), 100, MoveLimits(in_flight=1000, per_s=5))
    assert slow.under_way == 5
    slow.advance(1.0, world)
    assert slow.under_way == 10


def test_a_destination_counts_moves_from_all_sources() -> None:
    execution = Execution(0.0, MoveLimits(in_flight=10, per_s=1000))
    world = crowd(40)
    for number in range(20, 40):
        world.claim(f"s{number}", "c")
    from_c = [replace(one, source="c") for one in moves(40)[20:]]
    execution.begin(run(40), [*moves(20), *from_c])
    execution.advance(0.0, world)
    assert execution.under_way == 10


def test_load_on_its_way_is_reserved() -> None:
    """At the destination, until the subscriber is there."""
    world = crowd(2)
    execution = begun(world, 2)
    assert execution.reserved("b") == 20
    world.claim("s0", "b")
    execution.advance(0.1, world)
    assert execution.reserved("b") == 10


def test_who_is_away_is_adopted() -> None:
    """Nobody can be told to move, so the destination takes over the session."""
    world = crowd(1)
    world.sessions["s0"] = replace(world.sessions["s0"], connected=False)
    execution = begun(world, 1)
    execution.prepared("b", ["s0"])
    execution.advance(0.1, world)
    execution.advance(0.2, world)
    assert ordered(execution, "b", 0.2, Step.ADOPTING) == ["s0"]


def test_nobody_is_adopted_before_its_broker_was_heard() -> None:
    """After a restart we may not know yet that one has come back, or what it has subscribed to meanwhile."""
    world = crowd(1)
    world.sessions["s0"] = replace(world.sessions["s0"], connected=False)
    world.unheard.add("a")
    execution = begun(world, 1)
    execution.prepared("b", ["s0"])
    execution.advance(0.1, world)
    execution.advance(0.2, world)
    assert not ordered(execution, "b", 0.2, Step.ADOPTING)
    world.unheard.clear()
    execution.advance(0.3, world)
    assert ordered(execution, "b", 0.3, Step.ADOPTING) == ["s0"]


def test_a_dead_brokers_people_are_adopted() -> None:
    """Their broker can't tell them to move, so the destination takes over their sessions."""
    world = crowd(1)
    world.dead.add("a")
    execution = begun(world, 1)
    execution.prepared("b", ["s0"])
    execution.advance(0.1, world)
    execution.advance(0.2, world)
    assert ordered(execution, "b", 0.2, Step.ADOPTING) == ["s0"]


def test_a_destination_that_is_cordoned_gets_nobody() -> None:
    world = crowd(3)
    execution = begun(world, 3, MoveLimits(in_flight=1))
    world.taking.discard("b")
    progress = execution.advance(0.1, world)
    assert sorted(move.step for move, _ in progress.moves) == [Step.CANCELLED, Step.CANCELLED, Step.FAILED]
    assert progress.ended[0].failed == 1


def test_a_destination_that_does_not_answer() -> None:
    """After fifteen seconds the move has failed."""
    world = crowd(1)
    execution = begun(world, 1)
    assert not execution.advance(15.0, world).moves
    ((move, _),) = execution.advance(15.1, world).moves
    assert (move.step, move.outcome) == (Step.FAILED, "timed out")


def test_stopping_lets_those_go_on_who_were_told() -> None:
    world = crowd(3)
    execution = begun(world, 3, MoveLimits(in_flight=2))
    execution.prepared("b", ["s0"])
    execution.advance(0.1, world)
    execution.stop("p")
    execution.advance(0.2, world)
    assert [one.state for one in execution.runs] == ["stopping"]
    assert execution.under_way == 1
    world.claim("s0", "b")
    (ended,) = execution.advance(0.3, world).ended
    assert (ended.state, ended.done, ended.cancelled) == ("stopped", 1, 2)


def test_one_plan_at_a_time() -> None:
    """A second plan is refused with the name of the first, and can't be stopped either."""
    execution = begun(crowd(2), 2)
    with pytest.raises(InUse, match="p is being carried out"):
        execution.begin(run(1, "q"), [])
    with pytest.raises(NotFound):
        execution.stop("q")


def test_it_goes_on_from_what_was_written() -> None:
    world = crowd(3)
    written = {one.number: one for one in moves(3)}
    execution = begun(world, 3, MoveLimits(in_flight=2))
    written |= {0: replace(written[0], step=Step.PREPARING), 1: replace(written[1], step=Step.MOVING)}
    execution = Execution(50.0, MoveLimits(in_flight=3), [run(3)], written.values())
    assert ordered(execution, "b", 50.0, Step.PREPARING) == ["s0"]
    assert [(one.subscriber, one.destination) for one in execution.orders("a", 50.0)[Step.MOVING]] == [("s1", "b")]
    for subscriber in world.sessions:
        world.claim(subscriber, "b")
    (ended,) = execution.advance(50.1, world).ended
    assert ended.done == 3
