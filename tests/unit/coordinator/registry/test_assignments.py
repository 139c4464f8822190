"""The assignments that plans are made on: who is where, who may be moved, and how far."""

from __future__ import annotations

from tocsin.coordinates.coordinate import DIMENSIONS, Coordinate
from tocsin.coordinates.located import Located
from tocsin.coordinator.registry.events import BrokerModeSet, HeartbeatReceived, Measured, ReportedSession
from tocsin.protocol.coordination import BrokerState
from unit.coordinator.network import Network, held


def _at(x_ms: float) -> Coordinate:
    return Coordinate((x_ms, *[0.0] * (DIMENSIONS - 1)), 1.0)


def _network() -> Network:
    """East, west and one that has told no coordinate; ann is in the east, and nobody knows where bob is."""
    network = Network()
    for name, x_ms in (("east", 0.0), ("west", 300.0)):
        network.register(name)
        network.handle(HeartbeatReceived(network.now_s, name, measured=Measured(_at(x_ms))))
    network.register("nowhere")
    network.claim("east", "ann/d", "bob/d")
    changed = tuple(ReportedSession(one, 1, True, held("fire")) for one in ("ann/d", "bob/d"))
    measured = Measured(located={"ann/d": Located(_at(5.0))})
    network.handle(HeartbeatReceived(network.now_s, "east", changed=changed, measured=measured))
    return network


def test_a_plan_sees_what_is_within_reach() -> None:
    """Without a limit, everything is."""
    state = _network().state
    view = state.assignment(reach_ms=100)
    assert (view.brokers, view.subscribers) == (("east", "nowhere", "west"), ("ann/d", "bob/d"))
    assert view.within_reach.tolist() == [[True, True, False], [True, True, True]]
    assert state.assignment().within_reach.size == 0


def test_so_does_an_evacuation_and_brokers_that_are_cordoned_take_nobody() -> None:
    network = _network()
    network.handle(BrokerModeSet("nowhere", BrokerState.CORDONED))
    network.handle(BrokerModeSet("east", BrokerState.DRAINING))
    view = network.state.evacuation({"east"}, reach_ms=100)
    assert view.takes.tolist() == [False, False, True]
    assert view.movable.all()
    assert view.within_reach.tolist() == [[True, True, False], [True, True, True]]
    assert view.confined == 1
