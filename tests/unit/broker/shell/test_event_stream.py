"""Server-Sent Events: the same messages, with a cursor over all subscriptions as the event's id."""

from __future__ import annotations

import asyncio

import pytest

from tocsin.broker.shell.connections import Connection
from tocsin.broker.shell.event_stream import EventStream, with_positions
from tocsin.errors import InvalidValue
from tocsin.protocol.frames import text_frame, text_of
from tocsin.protocol.messages import Failed, Passed, Subscribe, Subscribed, decode_result, encode, gap_for


class Listener:
    def __init__(self) -> None:
        self.heard: list[str] = []
        #: Nothing like the machine's own clock.
        self.time_s = -1e9

    def now_s(self) -> float:
        return self.time_s

    def opened(self, connection: Connection) -> None:
        self.heard.append("opened")

    def received(self, connection: Connection, text: bytes) -> None:
        self.heard.append("received")

    def congested(self, connection: Connection) -> None:
        self.heard.append("congested")

    def flushed(self, connection: Connection) -> None:
        self.heard.append("flushed")

    def lost(self, connection: Connection) -> None:
        self.heard.append("lost")


def notification(subscription: int, sequence: int, text: str = "") -> bytes:
    line = (
        f'{{"subscription":{subscription},"channel":"C","position":"{subscription}-{sequence}",'
        f'"committed_at_us":1,"payload":{{"text":"{text}"}}}}'
    )
    return text_frame(b'{"type":"notification",' + line.encode()[1:])


def stream(count: int = 2, *, max_queued_bytes: int = 10_000) -> tuple[EventStream, Listener]:
    listener = Listener()
    return EventStream(1, listener, count, max_queued_bytes=max_queued_bytes), listener


async def test_a_failure_is_an_event_of_its_own() -> None:
    """Who follows by events is told that a subscription has failed, in its place among the notifications."""
    events, _ = stream(1)
    events.send(Subscribed(7, "C", {}, "7-3", request=1))
    events.deliver([text_frame(encode(Failed(7, "C", "7-8", 1, "no such zone")))])
    text = (await anext(events.events())).decode()
    assert text.endswith(
        'event: failed\nid: 7-8\ndata: {"type":"failed","subscription":7,"channel":"C","position":"7-8",'
        '"committed_at_us":1,"reason":"no such zone"}\n\n'
    )


async def test_ids_are_positions_in_the_order_of_the_subscriptions() -> None:
    """Each event's id is where the stream has got to in every subscription that was asked for."""
    events, _ = stream()
    events.send(Subscribed(9, "C", {}, "9-5", request=2))
    events.send(Subscribed(7, "C", {}, "7-3", request=1))
    events.deliver([notification(9, 6), notification(7, 8), notification(99, 1)])
    text = (await anext(events.events())).decode()
    ids = [line for line in text.splitlines() if line.startswith("id: ")]
    assert ids == ["id: ,9-5", "id: 7-3,9-5", "id: 7-3,9-6", "id: 7-8,9-6", "id: 7-8,9-6"]
    assert text.count("event: notification\n") == 3
    assert '"type"' in text


async def test_too_much_waiting_is_told_and_told_again_when_it_is_over() -> None:
    """The node hears when more waits than may, and when that is out."""
    events, listener = stream(max_queued_bytes=500)
    events.deliver([notification(7, at, "x" * 200) for at in range(3)])
    assert events.is_congested()
    assert listener.heard == ["congested"]
    sending = events.events()
    await anext(sending)
    waiting = asyncio.ensure_future(anext(sending))
    await asyncio.sleep(0)
    assert listener.heard == ["congested", "flushed"]
    events.close(4001, "too slow")
    assert b'"code":4001' in await waiting
    with pytest.raises(StopAsyncIteration):
        await anext(sending)
    assert listener.heard[-1] == "lost"


def test_last_event_id() -> None:
    """A cursor gives each subscription its position; one that does not fit is refused."""
    calls = [Subscribe("A"), Subscribe("B", {"x": 1})]
    first, second = with_positions(calls, "7-3,")
    assert (first.position, first.request, second.position, second.request) == ("7-3", 1, "", 2)
    assert [one.position for one in with_positions(calls, "")] == ["", ""]
    with pytest.raises(InvalidValue, match="1 positions for 2 subscriptions"):
        with_positions(calls, "7-3")
    with pytest.raises(InvalidValue, match="not a position"):
        with_positions(calls, "7-3,x")


async def test_who_is_closed_and_does_not_read_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that takes nothing would keep the connection and what waits for it; one that reads is left alone."""
    monkeypatch.setattr("tocsin.broker.shell.event_stream._CLOSE_TIMEOUT_S", 0.01)
    is_cut = asyncio.Event()
    stuck = EventStream(1, Listener(), 1, max_queued_bytes=100, cut=is_cut.set)
    stuck.deliver([notification(7, 8)])
    reading = stuck.events()
    await anext(reading)  # and never again
    stuck.close(4001, "you read too slowly")
    await asyncio.wait_for(is_cut.wait(), 5)

    is_cut.clear()
    other = EventStream(2, Listener(), 1, max_queued_bytes=100, cut=is_cut.set)
    other.close(4002, "the broker ends")
    assert [b"4002" in part async for part in other.events()] == [True]
    await asyncio.sleep(0.05)
    assert not is_cut.is_set()


async def test_a_gap_among_results_is_told_as_what_it_is() -> None:
    """A result that was too large to be sent has a gap in its place, and the id goes on after it."""
    events, _ = stream(count=1)
    events.send(Subscribed(7, "C", {}, "7-3", request=1))
    gap = gap_for(decode_result(text_of(notification(7, 8))), 1 << 30)
    events.deliver([text_frame(gap), notification(7, 9)])
    text = (await anext(events.events())).decode()
    assert [line for line in text.splitlines() if line.startswith(("id: ", "event: "))] == [
        "event: subscribed",
        "id: 7-3",
        "event: history_gone",
        "id: 7-8",
        "event: notification",
        "id: 7-9",
    ]


async def test_when_it_was_heard_is_told_by_the_brokers_clock() -> None:
    """Silence is measured by one clock, which is the node's."""
    follower, listener = stream()
    assert follower.heard_at_s == listener.time_s
    listener.time_s += 10
    follower.ping()
    assert follower.heard_at_s == listener.time_s
    follower.deliver([notification(7, 8)])
    listener.time_s += 10
    events = follower.events()
    await anext(events)
    follower.deliver([notification(7, 9)])
    await anext(events)
    assert follower.heard_at_s == listener.time_s
    await events.aclose()


async def test_what_was_passed_over_counts_in_the_events_id() -> None:
    """So that `Last-Event-ID` carries on behind it; filters stay with their calls."""
    events, _ = stream(1)
    events.send(Subscribed(7, "C", {}, "7-3", request=1, where="n > 1"))
    events.send(Passed(7, "7-8"))
    text = (await anext(events.events())).decode()
    assert text.endswith('event: passed\nid: 7-8\ndata: {"type":"passed","subscription":7,"position":"7-8"}\n\n')
    calls = [Subscribe("C", {}, where="n > 1"), Subscribe("D", {})]
    assert with_positions(calls, "7-8,") == [Subscribe("C", {}, "7-8", 1, "n > 1"), Subscribe("D", {}, "", 2)]
