"""Plans through the whole machine: what brokers are told with their heartbeats, and what is written down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tocsin.coordinator.moves.table import MoveRecord, PlanRun, Step
from tocsin.coordinator.registry.events import BrokerModeSet, PlanBegun, PlanStopped, ReportedSession
from tocsin.coordinator.registry.instructions import Audit, StoreMove, StorePlanRun
from tocsin.errors import InUse
from tocsin.protocol.coordination import BrokerState
from unit.coordinator.network import Network, held

_MOVE = MoveRecord("p", 0, "ann/phone", "a", "b", 10.0, "b has room")
_RUN = PlanRun("p", "migration", "ldm", "uneven", "me", 1)


@pytest.fixture
def network() -> Network:
    network = Network()
    for name in ("a", "b", "c"):
        network.register(name)
    network.claim("a", "ann/phone")
    network.heartbeat("a", ReportedSession("ann/phone", 1, True, held("fire")))
    return network


def test_a_move_from_order_to_claim(network: Network) -> None:
    """Brokers get their orders with heartbeats, in order, and each step is stored."""
    begun = network.handle(PlanBegun(_RUN, [_MOVE]))
    assert StorePlanRun(_RUN) in begun
    assert StoreMove(_MOVE) in begun
    answer = network.heartbeat("b")
    assert dict(answer.orders.prepare) == {"ann/phone": ("fire",)}
    assert answer.next_in_s < 1, "it is wanted again soon"
    assert not network.heartbeat("a").orders.move, "not before b is prepared"
    network.heartbeat("b", prepared=("ann/phone",))
    (order,) = network.heartbeat("a").orders.move.values()
    assert (order.broker, order.url) == ("b", "http://b")
    assert network.place("ann", "phone").broker == "b", "whoever has been told to go is sent there"
    network.claim("b", "ann/phone")
    done = network.handled_heartbeat("b")
    assert StoreMove(replace(_MOVE, step=Step.DONE, outcome="arrived")) in done
    assert [one.action for one in done if isinstance(one, Audit)] == ["move", "ended"]
    assert network.heartbeat("b").next_in_s == 1
    assert not network.state.execution.runs


def test_a_cordoned_destination_ends_it(network: Network) -> None:
    """The move has failed, and the subscriber stays where it is."""
    network.handle(PlanBegun(_RUN, [_MOVE]))
    network.heartbeat("b")
    network.handle(BrokerModeSet("b", BrokerState.CORDONED))
    done = network.handled_heartbeat("b")
    assert StoreMove(replace(_MOVE, step=Step.FAILED, outcome="unusable")) in done
    assert network.owner_of("ann/phone") == "a"


def test_one_plan_at_a_time_unless_the_other_is_stopped(network: Network) -> None:
    network.handle(PlanBegun(_RUN, [_MOVE]))
    other = replace(_RUN, plan="q", moves=0)
    with pytest.raises(InUse):
        network.handle(PlanBegun(other, []))
    stopped = network.handle(PlanStopped("p", "you"))
    assert Audit("you", "stop", "p") in stopped
    network.handle(PlanBegun(other, []))


def test_brokers_that_should_be_empty(network: Network) -> None:
    """Drained, dead for long enough, or gone; if they keep anybody."""
    assert network.state.leaving(network.now_s, 30) == frozenset()
    network.handle(BrokerModeSet("a", BrokerState.DRAINING))
    network.handle(BrokerModeSet("b", BrokerState.DRAINING))
    assert network.state.leaving(network.now_s, 30) == {"a"}
    view = network.state.evacuation({"a"})
    assert view.movable.tolist() == [True]
    assert dict(zip(view.brokers, view.takes.tolist(), strict=True)) == {"a": False, "c": True}


def test_reports_go_stale(network: Network) -> None:
    """Before a broker is dead, nothing is planned by what it last said."""
    assert network.state.unheard(network.now_s) == []
    network.pass_time(3.0, heard=("a", "b"))
    assert network.state.unheard(network.now_s) == ["c"]
