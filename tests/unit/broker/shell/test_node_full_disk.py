"""A broker whose disk is full goes on with what it has, promises nothing that it can't store, and recovers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.broker.core.events import ResultsPulled, Ticked
from tocsin.protocol.messages import CLOSE_DRAINING, Error, Subscribed, Welcome
from tocsin.protocol.ports import Delivery
from unit.broker.nodes import Broker, Line

_SUBSCRIBE = '{"type":"subscribe","channel":"C","request":3}'
_ANOTHER = '{"type":"subscribe","channel":"D","request":4}'


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    yield made
    made.store.close()


def _is_temporary(line: Line, request: int) -> bool:
    error = line.last()
    return isinstance(error, Error) and error.temporary and "full" in error.message and error.request == request


async def test_the_request_that_finds_the_disk_full_is_refused_for_the_time_being(broker: Broker) -> None:
    """Nothing is told that is not stored: the subscriber comes back to what it had before it asked."""
    ann = await broker.line("ann")
    await broker.say(ann, _SUBSCRIBE)
    await broker.say(await broker.line("bob"), _ANOTHER)  # held from now on: it is answered at once
    broker.store.is_full = True
    await broker.say(ann, _ANOTHER)
    assert _is_temporary(ann, 4)
    assert ann.closed is not None
    again = await broker.line("ann")
    (welcome,) = [one for one in again.sent if isinstance(one, Welcome)]
    assert [one.channel for one in welcome.subscriptions] == ["C"]


async def test_while_the_disk_is_full_those_who_are_there_are_served(broker: Broker) -> None:
    """Nobody is closed, new wishes are refused for the time being, and results are delivered."""
    ann = await broker.line("ann")
    await broker.say(ann, _SUBSCRIBE)
    broker.store.is_full = True
    broker.node.store_watch.check()
    assert broker.state.unwritable
    await broker.say(ann, _ANOTHER)
    assert _is_temporary(ann, 4)
    await broker.say(ann, '{"type":"unsubscribe","subscription":1,"request":5}')
    assert _is_temporary(ann, 5)
    stranger = await broker.line("eve")
    assert _is_temporary(stranger, 0)
    assert stranger.closed is not None
    assert stranger.closed[0] == CLOSE_DRAINING
    broker.node.happened(ResultsPulled(1, [], 100, 0.0))
    broker.node.happened(ResultsPulled(2, [Delivery(1, 101, b"x")], 101, 0.0))
    assert ann.wires == [b"x"]
    broker.node.lost(ann)
    again = await broker.line("ann")  # has a session here, and may come back
    assert again.wires == [b"x"]
    assert again.closed is None


async def test_when_there_is_room_again_everything_goes_on(broker: Broker) -> None:
    """What was acknowledged meanwhile is stored then, and new wishes are granted."""
    ann = await broker.line("ann")
    await broker.say(ann, _SUBSCRIBE)
    broker.node.happened(ResultsPulled(1, [], 100, 0.0))
    broker.node.happened(ResultsPulled(2, [Delivery(1, 101, b"x")], 101, 0.0))
    broker.store.is_full = True
    await broker.say(ann, '{"type":"ack","positions":["1-101"]}')
    broker.node.happened(Ticked(1.0))
    assert broker.state.unwritable
    assert ann.closed is None
    broker.store.is_full = False
    broker.node.store_watch.check()
    broker.node.happened(Ticked(2.0))
    (session,) = broker.store.sessions()
    assert [one.position.sequence for one in session.subscriptions] == [101]
    await broker.say(ann, _ANOTHER)
    assert isinstance(ann.last(), Subscribed)
