"""Which broker a subscriber is sent to."""

from __future__ import annotations

import pytest

from tocsin.balancing.views import NetworkView
from tocsin.coordinator.registry.events import BrokerModeSet, PolicyChosen
from tocsin.errors import InvalidValue, Unavailable
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


def test_a_rush_is_spread_before_any_heartbeat_shows_it() -> None:
    """A hundred newcomers between two heartbeats do not all go to the same broker; after a while they are forgotten."""
    network = Network()
    network.register("a", "b")
    network.register("big", capacity=2.0)
    chosen = [network.place(f"user{n}").broker for n in range(100)]
    assert {name: chosen.count(name) for name in set(chosen)} == {"a": 25, "b": 25, "big": 50}
    network.pass_time(2.5, heard=("a", "b", "big"))
    assert network.place().broker == "a"


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


def test_only_known_policies_are_chosen_and_the_choice_is_remembered() -> None:
    network = Network()
    with pytest.raises(InvalidValue, match="least-resulting-load, nearest, random, round-robin"):
        network.handle(PolicyChosen("best"))
    network.handle(PolicyChosen("random"))
    network.restart()
    assert network.state.policy == "random"


def test_a_strangers_policy_that_fails_keeps_nobody_from_being_placed() -> None:
    """What raises, or chooses who is not there, is told, and the least loaded is taken."""

    def raises(view: NetworkView, _newcomer: object, _chance: object) -> str:
        raise KeyError(len(view.brokers))

    network = Network("raises", raises=raises, lies=lambda *_: "nobody")
    network.register("a")
    assert network.place().reason == "least-resulting-load"
    network.handle(PolicyChosen("lies"))
    assert network.place().broker == "a"
    assert network.notes == ["placement policy failed"] * 2


def test_who_is_moved_goes_to_what_is_near_them_now() -> None:
    network = Network(policy="nearest")
    for name, x in (("a", 0.0), ("b", 100.0), ("c", 200.0)):
        network.register(name, location=(x, 0.0))
    network.claim("a", "ann/phone", "bob/phone")
    network.heartbeat("a", locations={"ann/phone": (190.0, 0.0)})
    placed = network.move_away("a", "ann/phone", "bob/phone")
    assert placed["ann/phone"].broker == "c"
    assert placed["bob/phone"].broker == "b", "as near as the broker that was chosen for bob"
