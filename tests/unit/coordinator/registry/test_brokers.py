"""Brokers that register: whose a name is, and which of its starts counts."""

from __future__ import annotations

import pytest

from tocsin.coordinator.registry.events import (
    BrokerRegistered,
    HeartbeatReceived,
    MovesAsked,
    ReportedSession,
    SubscribersClaimed,
)
from tocsin.coordinator.registry.instructions import AnswerBroker
from tocsin.errors import AlreadyExists, InUse, Superseded
from unit.coordinator.network import Network


def _register(network: Network, identity: str, start: str = "x") -> int:
    event = BrokerRegistered(network.now_s, "a", "http://a", identity=identity, start=start, now_us=1000)
    return network.answer(event, AnswerBroker).incarnation


def test_a_second_broker_of_the_same_name_is_refused_and_changes_nothing() -> None:
    """With another data folder it would let go of all that the first holds. It may come when that was silent for as
    long as the cluster waits too: else a pause of the first would end both."""
    network = Network()
    first = _register(network, "one")
    before = network.stored_brokers["a"]
    with pytest.raises(AlreadyExists, match="another broker called a is running"):
        _register(network, "two")
    assert network.stored_brokers["a"] == before
    network.handle(HeartbeatReceived(network.now_s, "a", incarnation=first))
    network.pass_time(14.5)
    with pytest.raises(AlreadyExists):
        _register(network, "two")
    network.pass_time(0.5)
    event = BrokerRegistered(network.now_s, "a", "http://a", identity="two", start="x", takes_over=False)
    with pytest.raises(InUse, match="fell silent"):
        network.handle(event)
    assert network.stored_brokers["a"].holder.identity == "one"
    assert _register(network, "two") > first


def test_a_broker_that_starts_again_is_taken_at_once_and_its_earlier_start_is_refused() -> None:
    """Neither heartbeats nor claims nor moves of the earlier one change anything, also after a restart of ours."""
    network = Network()
    first = _register(network, "one", "x")
    assert _register(network, "one", "x") == first, "registering twice is once"
    second = _register(network, "one", "y")
    network.restart()
    late = (
        HeartbeatReceived(network.now_s, "a", changed=(ReportedSession("ann/phone", 9),), incarnation=first),
        SubscribersClaimed("a", ("ann/phone",), first),
        MovesAsked(network.now_s, "a", (), first),
    )
    for event in late:
        with pytest.raises(Superseded, match="broker a was started again"):
            network.handle(event)
    assert not network.stored_sessions
    network.handle(HeartbeatReceived(network.now_s, "a", incarnation=second))


def test_after_a_restart_of_the_coordinator_brokers_are_alive_until_silence_was_watched() -> None:
    network = Network()
    _register(network, "one")
    network.now_s += 3600
    network.restart()
    with pytest.raises(AlreadyExists):
        _register(network, "two")
    network.pass_time(15)
    _register(network, "two")
