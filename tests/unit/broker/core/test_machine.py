"""The broker's machine notices that what it knows does not agree, and tells how it came to that."""

from __future__ import annotations

import pytest

from tocsin.broker.core.machine import BrokerState
from tocsin.model.story import InvalidState
from worlds.broker_world import BrokerWorld


def _settled() -> BrokerWorld:
    world = BrokerWorld(brokers=1, clients=1)
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
