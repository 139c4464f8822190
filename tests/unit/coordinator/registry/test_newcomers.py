"""Who asks for a broker gets one that suits them."""

from __future__ import annotations

import pytest

from tocsin.coordinator.registry.events import BrokerModeSet, PolicyChosen
from tocsin.errors import Unavailable
from tocsin.protocol.coordination import BrokerState
from unit.coordinator.network import Network


def test_who_comes_back_gets_the_same_broker() -> None:
    """While that is active or cordoned and can be reached; else somebody else's."""
    network = Network("round-robin")
    network.register("a", "b")
    network.claim("a", "ann/phone")
    for _ in range(3):
        assert network.place("ann", "phone").broker == "a"
    network.handle(BrokerModeSet("a", BrokerState.CORDONED))
    assert network.place("ann", "phone") == network.place("ann", "phone")
    assert network.place("ann", "phone").reason == "sticky"
    assert network.place("ann", "laptop").broker == "b", "newcomers do not go to a cordoned one"
    assert network.place("ann", "phone", avoid=frozenset("a")).broker == "b"
    network.handle(BrokerModeSet("a", BrokerState.DRAINING))
    assert network.place("ann", "phone").broker == "b"


def test_what_to_avoid_is_a_wish() -> None:
    """If only those are left that a subscriber could not reach, it may try them again; if nobody is, it is told."""
    network = Network()
    with pytest.raises(Unavailable, match="no broker"):
        network.place()
    network.register("a")
    assert network.place(avoid=frozenset("a")).broker == "a"
    network.handle(BrokerModeSet("a", BrokerState.CORDONED))
    with pytest.raises(Unavailable):
        network.place()


def test_moving_away_spreads_a_brokers_subscribers_over_the_others() -> None:
    """Never to the one they leave; those whom nobody can take are left out."""
    network = Network("nearest")
    network.register("a", location=(0.0, 0.0))
    subscribers = [f"user{n}/phone" for n in range(10)]
    network.claim("a", *subscribers)
    assert network.move_away("a", *subscribers) == {}
    network.register("near", location=(1.0, 0.0))
    network.register("far", location=(9.0, 0.0))
    assert {placed.broker for placed in network.move_away("a", *subscribers).values()} == {"near"}
    network.handle(PolicyChosen("round-robin"))
    placed = [one.broker for one in network.move_away("a", *subscribers).values()]
    assert placed.count("near") == placed.count("far") == 5


def test_who_is_moved_goes_to_what_is_near_them_now() -> None:
    network = Network(policy="nearest")
    for name, x in (("a", 0.0), ("b", 100.0), ("c", 200.0)):
        network.register(name, location=(x, 0.0))
    network.claim("a", "ann/phone", "bob/phone")
    network.heartbeat("a", locations={"ann/phone": (190.0, 0.0)})
    placed = network.move_away("a", "ann/phone", "bob/phone")
    assert placed["ann/phone"].broker == "c"
    assert placed["bob/phone"].broker == "b", "as near as the broker that was chosen for bob"
