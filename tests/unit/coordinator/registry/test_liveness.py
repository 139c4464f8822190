"""Brokers that fall silent: which are dead, and which only seem so."""

from __future__ import annotations

from tocsin.coordinator.registry.events import BrokerModeSet, TimePassed
from tocsin.protocol.coordination import BrokerState
from unit.coordinator.network import Network


def test_silence_makes_a_broker_dead_and_a_heartbeat_brings_it_back() -> None:
    """Dead after five seconds of silence, not before; back in the mode it had."""
    network = Network()
    network.register("a", "b")
    network.handle(BrokerModeSet("a", BrokerState.CORDONED))
    network.pass_time(4.5, heard=("b",))
    assert network.state_of("a") is BrokerState.CORDONED
    network.pass_time(0.5, heard=("b",))
    assert network.state_of("a") is BrokerState.DEAD
    assert network.state_of("b") is BrokerState.ACTIVE
    assert network.heartbeat("a").state is BrokerState.CORDONED
    assert "broker is back" in network.notes


def test_after_a_restart_nobody_is_dead_until_silence_was_watched() -> None:
    """How long the coordinator was away does not count; one that was dead before is dead again, by the same clock."""
    network = Network()
    network.register("a", "b", "c")
    network.pass_time(6, heard=("b", "c"))
    assert network.state_of("a") is BrokerState.DEAD
    network.now_s += 3600
    network.restart()
    assert {network.state_of(name) for name in "abc"} == {BrokerState.ACTIVE}
    network.pass_time(4.5, heard=("b",))
    assert {network.state_of(name) for name in "abc"} == {BrokerState.ACTIVE}
    network.pass_time(0.5, heard=("b",))
    assert [network.state_of(name) for name in "abc"] == [BrokerState.DEAD, BrokerState.ACTIVE, BrokerState.DEAD]


def test_time_in_which_nobody_watched_is_no_silence() -> None:
    """If the coordinator itself was stopped for a minute, it gives everybody time to be heard."""
    network = Network()
    network.register("a")
    network.now_s += 60
    network.handle(TimePassed(network.now_s))
    assert network.state_of("a") is BrokerState.ACTIVE
    network.pass_time(5)
    assert network.state_of("a") is BrokerState.DEAD


def test_when_most_fall_silent_at_once_nobody_is_dead() -> None:
    """The fault is more likely here: two of three stay as they are, and it is told, until one is heard again."""
    network = Network()
    network.register("a", "b", "c")
    network.claim("a", "ann/phone")
    network.pass_time(60, heard=("c",))
    assert network.state.mass_outage
    assert [network.state_of(name) for name in "abc"] == [BrokerState.ACTIVE] * 3
    assert network.place("ann", "phone").broker == "a"
    assert network.place("bob").broker == "c", "newcomers go where somebody is heard"
    assert sum("fell silent at once" in note for note in network.notes) == 1
    network.pass_time(1, heard=("b", "c"))
    assert not network.state.mass_outage
    assert network.state_of("a") is BrokerState.DEAD, "one alone is believed"


def test_those_who_fall_silent_one_heartbeat_apart_fall_silent_at_once() -> None:
    """Heartbeats are spread over a second: the first to be overdue does not die before the others are counted."""
    network = Network()
    network.register("a", "b", "c", "d")
    network.pass_time(1, heard=("b", "c", "d"))
    network.pass_time(1, heard=("c", "d"))
    network.pass_time(30, heard=("d",))
    assert network.state.mass_outage
    assert all(network.state_of(name) is BrokerState.ACTIVE for name in "abcd")


def test_who_died_a_moment_ago_may_have_been_the_first_of_many() -> None:
    """The two that are left would be too few to count as many; for a while the third counts with them."""
    network = Network()
    network.register("a", "b", "c")
    network.pass_time(3, heard=("a", "b"))
    network.pass_time(6)
    assert [network.state_of(name) for name in "abc"] == [BrokerState.ACTIVE, BrokerState.ACTIVE, BrokerState.DEAD]
    assert network.state.mass_outage
    network.pass_time(1, heard=("b",))
    network.pass_time(5, heard=("b",))
    assert [network.state_of(name) for name in "abc"] == [BrokerState.DEAD, BrokerState.ACTIVE, BrokerState.DEAD]


def test_two_brokers_are_too_few_for_mass_outage() -> None:
    """With two, both may well have failed."""
    network = Network()
    network.register("a", "b")
    network.pass_time(5)
    assert [network.state_of(name) for name in "ab"] == [BrokerState.DEAD] * 2
