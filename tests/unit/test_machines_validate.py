"""Each machine notices that what it knows does not agree, and tells how it came to that."""

from __future__ import annotations

import random

import pytest

from tocsin.broker.core.machine import BrokerState
from tocsin.client.core.events import Placed, Started
from tocsin.client.core.options import SessionOptions
from tocsin.client.core.session import Session
from tocsin.model.story import InvalidState, Story
from unit.coordinator.network import Network
from worlds.broker_world import BrokerWorld


def _settled() -> BrokerWorld:
    world = BrokerWorld(random.Random(1), brokers=1, clients=1)
    world.connect(world.clients[0], world.brokers[0])
    world.settle()
    return world


def test_a_broker_tells_what_happened_to_the_session_that_is_wrong() -> None:
    """A session that owns no generation: its whole life at this broker is told."""
    state: BrokerState = _settled().brokers[0].state
    (session,) = state._claims.sessions.values()
    session.generation = 0
    with pytest.raises(InvalidState) as raised:
        state.validate()
    first, *story = str(raised.value).splitlines()
    assert first == "user0/d: ready, confirmed, owned with generation 0"
    assert [line.split(": ")[1] for line in story] == [
        "begun",
        "connected",
        "welcomed",
        "completed",
        "claimed",
        "confirmed",
    ]


def test_a_mistake_with_an_event_comes_with_the_events_before_it() -> None:
    """Whatever a handler raises, the latest events of the broker are told with it."""
    state: BrokerState = _settled().brokers[0].state

    def fail(_event: object) -> None:
        raise ZeroDivisionError

    event = type("Unheard", (), {"now_s": 9.0})
    state._handlers[event] = fail
    with pytest.raises(ZeroDivisionError) as raised:
        state.handle(event())
    (notes,) = raised.value.__notes__
    assert notes.splitlines()[-1] == "9.000 s b0: Unheard"


def test_a_coordinator_tells_whose_the_session_was() -> None:
    """A former owner that will never be told that it has lost a session."""
    network = Network()
    network.register("a", "b")
    network.claim("a", "ann/d")
    network.claim("b", "ann/d")
    network.state._sessions._to_lose["a"].clear()
    with pytest.raises(InvalidState) as raised:
        network.state.validate()
    assert str(raised.value).splitlines() == [
        "ann/d: a will not be told that it has lost it",
        "  1000.000 s ann/d: owner a, generation 1",
        "  1000.000 s ann/d: owner b, generation 2",
    ]


def test_a_client_tells_of_its_links() -> None:
    """A session that waits for nothing would stay without a connection for ever."""
    session = Session(SessionOptions(token="t", has_coordinator=True), random.Random(1).random, Story())
    session.handle(Started(), 1.0)
    session.handle(Placed("b", "http://b"), 2.0)
    session._current = None
    with pytest.raises(InvalidState) as raised:
        session.validate()
    assert str(raised.value).splitlines() == [
        "it has no link, and waits for nothing that brings one",
        "  2.000 s session: link 1 to http://b",
    ]
