"""No input of a user ends a broker, and no user's input harms another's subscriptions."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.broker.core.events import Claimed, ReportDue, ResultsPulled
from tocsin.broker.core.instructions import Report, StoreSubscription
from tocsin.broker.shell.coordinator_link import to_wire
from tocsin.errors import Unavailable
from tocsin.model.position import Position
from tocsin.protocol.messages import CLOSE_FAILED, CLOSE_IDLE, Error, Pong, Subscribed, Welcome
from tocsin.protocol.ports import Delivery, Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey
from tocsin.testing.memory_cluster import MemoryClusterLink
from unit.broker.nodes import Broker, Coordinator, Line

_SUBSCRIBE = '{"type":"subscribe","channel":"C","request":3}'


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    yield made
    made.store.close()


@pytest.mark.parametrize("sequence", [1 << 52, (1 << 63) - 1, 1 << 63, 1 << 70])
async def test_a_position_far_beyond_the_end_is_refused(broker: Broker, sequence: int) -> None:
    """Whoever asks for it, for a subscription that is held or not, is told, and nothing has changed."""
    ann, eve = await broker.line("ann"), await broker.line("eve")
    for _ in range(2):  # the second time, somebody holds it
        await broker.say(eve, f'{{"type":"subscribe","channel":"C","position":"1-{sequence}","request":3}}')
        assert isinstance(eve.last(), Error)
        assert (eve.last().code, eve.last().request) == ("invalid_value", 3)
        await broker.say(ann, _SUBSCRIBE)
        assert isinstance(ann.last(), Subscribed)
    assert [one.subscriptions for one in broker.store.sessions() if one.subscriber == "eve/d"] == [[]]
    assert not broker.failures()


_ZEROS = "0,0,0,0,0,0,0"


@pytest.mark.parametrize(
    "body",
    [
        "",
        '"coordinate":null',
        '"coordinate":{"vector":[]}',
        f'"coordinate":{{"vector":[{_ZEROS}]}}',
        f'"coordinate":{{"vector":[{_ZEROS},0,0]}}',
        f'"coordinate":{{"vector":[{_ZEROS},NaN]}}',
        f'"coordinate":{{"vector":[{_ZEROS},1e999]}}',
        f'"coordinate":{{"vector":[{_ZEROS},1e300]}}',
        f'"coordinate":{{"vector":[{_ZEROS},{"9" * 5000}]}}',
        f'"coordinate":{{"vector":[{_ZEROS},"1"]}}',
        '"coordinate":{"height_ms":0}',
        '"coordinate":{"height_ms":-1e-300}',
        '"coordinate":{"error":2}',
        '"coordinate":{},"round_trips_ms":{"b":0}',
        '"coordinate":{},"round_trips_ms":{"b":-1}',
        '"coordinate":{},"round_trips_ms":{"b":10001}',
        '"coordinate":{},"round_trips_ms":{"' + "b" * 65 + '":1}',
        '"coordinate":{},"round_trips_ms":{' + ",".join(f'"{number}":1' for number in range(9)) + "}",
    ],
)
async def test_what_is_no_coordinate_is_refused_and_told_to_nobody(broker: Broker, body: str) -> None:
    """The connection stays, and a right coordinate counts after it."""
    ann = await broker.line("ann")
    await broker.say(ann, f'{{"type":"coordinate",{body}}}'.replace(",}", "}"))
    assert isinstance(ann.last(), Error)
    assert ann.closed is None
    assert _located(broker) == {}
    await broker.say(ann, f'{{"type":"coordinate","coordinate":{{"vector":[{_ZEROS},1]}},"round_trips_ms":{{"b":3}}}}')
    assert _located(broker)["ann/d"].round_trips_ms == {"b": 3}
    assert not broker.failures()


def _located(broker: Broker) -> Any:
    """What the next report would tell."""
    return next(one for one in broker.state.handle(ReportDue()) if isinstance(one, Report)).located


async def test_what_the_store_can_not_take_ends_one_connection(broker: Broker) -> None:
    """One connection is closed and may come back; the broker goes on, and counts it."""
    ann, eve = await broker.line("ann"), await broker.line("eve")
    await broker.say(ann, _SUBSCRIBE)
    await broker.say(eve, _SUBSCRIBE)

    def poisoned(subscriber: str, key: SubscriptionKey, position: Position, where: str) -> StoreSubscription:
        return StoreSubscription(subscriber, key, Position(position.epoch, 1 << 63), where)

    with patch("tocsin.broker.core.subscribing.StoreSubscription", poisoned):
        await broker.say(eve, _SUBSCRIBE.replace("C", "D"))
    assert eve.closed is not None
    assert eve.closed[0] == CLOSE_FAILED
    assert broker.failures() == 1
    again = await broker.line("eve")
    (welcome,) = [one for one in again.sent if isinstance(one, Welcome)]
    assert [one.channel for one in welcome.subscriptions] == ["C"]
    broker.node.happened(ResultsPulled(1, [], 100, 0.0))
    broker.node.happened(ResultsPulled(2, [Delivery(1, 101, b"x")], 101, 0.0))
    assert ann.wires == [b"x"]
    assert again.wires == [b"x"]


async def test_a_mistake_with_one_connection_ends_that_connection(broker: Broker) -> None:
    """Its session goes on from what the store has, and the others never notice."""
    ann, eve = await broker.line("ann"), await broker.line("eve")
    await broker.say(ann, _SUBSCRIBE)
    await broker.say(eve, _SUBSCRIBE)
    with patch("tocsin.broker.core.locations.LocationReports.tell", side_effect=ZeroDivisionError):
        await broker.say(eve, '{"type":"location","x":1,"y":2}')
    assert eve.closed is not None
    assert eve.closed[0] == CLOSE_FAILED
    assert (broker.failures(), broker.state.sessions, broker.state.frontends) == (1, 2, 2)
    await broker.say(ann, '{"type":"ping","request":1}')
    assert ann.last() == Pong(1)
    again = await broker.line("eve")
    (welcome,) = [one for one in again.sent if isinstance(one, Welcome)]
    assert [one.channel for one in welcome.subscriptions] == ["C"]


async def test_whatever_a_subscriber_asks_for_can_be_reported(broker: Broker) -> None:
    """What the coordinator would not take as a channel is refused; else no heartbeat could be made any more."""
    eve = await broker.line("eve")
    broker.node.happened(Claimed({"eve/d": 1}))
    with patch.object(MemoryClusterLink, "acquire", side_effect=Unavailable("starting", retry_after_s=1)):
        await broker.say(eve, json.dumps({"type": "subscribe", "channel": "C" * 256, "position": "1-90", "request": 3}))
        for session in broker.state.kept():
            to_wire(session, connected=True)
    assert isinstance(eve.last(), Error)
    assert (eve.last().code, eve.last().request) == ("invalid_value", 3)


@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_mistake_with_what_hello_brought_ends_that_connection(broker: Broker, is_kept: bool) -> None:
    """Also when the coordinator, or the cluster, had to answer before anybody was let in."""
    ann = await broker.line("ann")
    await broker.say(ann, _SUBSCRIBE)
    kept = KeptSession("eve/d", 1, [Kept(SubscriptionKey.of("D", {}, ""), Position(2, 90))]) if is_kept else None
    eve = Line(broker.node.next_connection())
    broker.node.opened(eve)
    with (
        patch.object(Coordinator, "known", {"eve/d": kept}),
        patch("tocsin.broker.core.subscribing.Subscribing.subscribe", side_effect=ZeroDivisionError),
    ):
        await broker.say(
            eve, '{"type":"hello","token":"eve","device":"d","subscriptions":[{"type":"subscribe","channel":"C"}]}'
        )
    assert eve.closed is not None
    assert eve.closed[0] == CLOSE_FAILED
    assert (broker.failures(), broker.state.connections) == (1, 1)
    again = await broker.line("eve")
    assert [type(one) for one in again.sent] == [Welcome]


async def test_who_says_hello_too_late_may_come_back(broker: Broker) -> None:
    """Its computer may have slept: a code that ends the subscriber's program would end its alerts."""
    line = Line(broker.node.next_connection())
    broker.node.opened(line)
    broker.node._close_silent(time.monotonic() + 11)
    assert line.closed is not None
    assert line.closed[0] == CLOSE_IDLE


async def test_who_can_not_be_written_to_is_closed(broker: Broker) -> None:
    """To leave it open would be worse: nothing would come, and pings would be answered."""
    ann, eve = await broker.line("ann"), await broker.line("eve")
    await broker.say(ann, _SUBSCRIBE)
    await broker.say(eve, _SUBSCRIBE)
    broker.node.happened(ResultsPulled(1, [], 100, 0.0))
    with patch.object(eve, "deliver", side_effect=ZeroDivisionError):
        broker.node.happened(ResultsPulled(2, [Delivery(1, 101, b"x")], 101, 0.0))
    assert ann.wires == [b"x"]
    assert eve.closed is not None
    assert eve.closed[0] == CLOSE_FAILED
    assert broker.state.connections == 1


_NUMBERS = st.integers() | st.floats() | st.sampled_from([0, 1, 2**53, 2**63 - 1, 2**63, 2**64, -1, 10**400])
_POSITIONS = st.builds("{}-{}".format, _NUMBERS, _NUMBERS)
_ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text(max_size=20) | _POSITIONS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
_FIELDS = ("channel", "parameters", "position", "positions", "subscription", "request", "x", "y", "token", "device")
_NEARLY_RIGHT = st.builds(
    lambda right, wrong: {**right, **wrong},
    st.sampled_from(
        [
            {"type": "subscribe", "channel": "C"},
            {"type": "subscribe", "channel": "D", "parameters": {"a": 1}},
            {"type": "unsubscribe", "subscription": 1},
            {"type": "ack", "positions": ["1-100"]},
            {"type": "location", "x": 1, "y": 1},
            {"type": "ping"},
            {"type": "hello", "token": "eve"},
        ]
    ),
    st.dictionaries(st.sampled_from(_FIELDS), _ANYTHING | st.just("C"), max_size=2),
)
_MESSAGES = (
    (_NEARLY_RIGHT | _ANYTHING).map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=50)
    | st.sampled_from([1, 500, 30_000]).map(lambda depth: b"[" * depth)
    | st.sampled_from([1, 500, 10_000]).map(lambda depth: b'{"type":"subscribe","parameters":' + b'{"a":' * depth)
)


@given(st.lists(_MESSAGES, min_size=1, max_size=12), st.integers(0, 2**32))
def test_whatever_one_sends_the_broker_goes_on(messages: list[bytes], seed: int) -> None:
    """Messages of any kind, over any number of connections: nothing fails, and others get what they asked for."""

    async def live() -> None:
        with tempfile.TemporaryDirectory() as folder:
            broker, chance = Broker(Path(folder)), random.Random(seed)
            ann = await broker.line("ann")
            await broker.say(ann, _SUBSCRIBE)
            eves: list[Line] = []
            for message in messages:
                if not eves or eves[-1].closed is not None or chance.random() < 0.2:
                    eves.append(await broker.line(f"eve{chance.randrange(3)}"))
                await broker.say(eves[-1], message)
                if chance.random() < 0.3:
                    broker.node.lost(eves[-1])
                    eves.append(await broker.line("eve0"))
            broker.node.happened(ResultsPulled(1, [], 100, 0.0))
            broker.node.happened(ResultsPulled(2, [Delivery(1, 101, b"x")], 101, 0.0))
            assert (ann.wires, ann.closed, broker.failures()) == ([b"x"], None, 0)
            await broker.node.stop()

    asyncio.run(live())
