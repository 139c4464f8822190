"""Thousands of subscribers in a process of their own, each checking what it is sent: `Crowd` is the handle on it.

The records of each topic are numbered one after the other. So a subscriber remembers one number, and the few that came
before their turn (within one run a channel's results have no order of their own), and knows what it lacks and what came
twice as the application sees it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import msgspec

from tocsin.lab.benchmarks.json_process import JsonProcess, serve
from tocsin.lab.benchmarks.load_wire import Kept, Seat, TocsinConnection
from tocsin.protocol.messages import Hello, Subscribe

_OPENING = 100
_PORTS_PER_ADDRESS = 20_000
_OPEN_TIMEOUT_S = 60.0
#: Pause before somebody whose connection was closed comes back, and the longest one.
_FIRST_PAUSE_S = 0.05
_LAST_PAUSE_S = 5.0
#: Latencies are counted in steps of one millisecond; what took longer counts as this.
_MAX_LATENCY_MS = 600_000
#: So many of one topic are never in one run here: what is still missing then is lost.
_MAX_EARLY = 500


class Connect(msgspec.Struct, frozen=True, tag="connect"):
    """Open a connection for each seat, which has one topic; answers when all are subscribed, or could not be."""

    host: str
    port: int
    channel: str
    token: str
    seats: list[Seat]


class Cut(msgspec.Struct, frozen=True, tag="cut"):
    """Cut all connections at once. Everybody comes back by themselves, with their positions."""


class Stall(msgspec.Struct, frozen=True, tag="stall"):
    """Let every `every`th subscriber stop reading, or, with 0, all of them read on."""

    every: int


class Wait(msgspec.Struct, frozen=True, tag="wait"):
    """Answer when every subscriber that reads has got its topic's last record, or after `timeout_s`."""

    last: dict[str, int]
    timeout_s: float


class Report(msgspec.Struct, frozen=True, tag="report"):
    """Answer with what was seen since the last report."""


class Seen(msgspec.Struct):
    """What subscribers were sent. `behind` is how many of them lack records."""

    subscribers: int
    connected: int
    got: int
    behind: int
    came_back: int
    p50_ms: int
    p99_ms: int
    max_ms: int
    bad: list[str]


_Command = Connect | Cut | Stall | Wait | Report


class Crowd(JsonProcess):
    """When the block ends, so does the process."""

    def __init__(self) -> None:
        super().__init__("scorecard.crowd")

    def do(self, command: _Command) -> Seen:
        return self.ask(command, Seen)


class _Payload(msgspec.Struct):
    topic: str
    number: int
    sent_us: int


class _Notified(msgspec.Struct):
    position: str
    payload: _Payload


_notified = msgspec.json.Decoder(_Notified)


class _Subscriber:
    """One seat over all its connections."""

    def __init__(self, seat: Seat, crowd: _Subscribers) -> None:
        self.seat = seat
        self.topic = seat.topics[0]
        self.position = ""
        self.sequence = -1
        #: Every record up to this number has come.
        self.through = -1
        self._early: set[int] = set()
        self.connection: _Connection | None = None
        self.is_stalled = False
        self._crowd = crowd

    def note(self, notification: memoryview) -> None:
        one = _notified.decode(notification)
        sequence = int(one.position.partition("-")[2])
        if sequence <= self.sequence:
            return  # Sent again after coming back: the application never sees it.
        self.position, self.sequence = one.position, sequence
        self._crowd.got(one.payload.sent_us)
        if one.payload.topic != self.topic:
            self._crowd.complain(f"{self.seat.device}: got a record of {one.payload.topic}, wants {self.topic}")
        elif one.payload.number <= self.through or one.payload.number in self._early:
            self._crowd.complain(f"{self.seat.device}: got record {one.payload.number} of {self.topic} twice")
        else:
            self._take(one.payload.number)

    def _take(self, number: int) -> None:
        self._early.add(number)
        while self.through + 1 in self._early:
            self.through += 1
            self._early.remove(self.through)
        if len(self._early) > _MAX_EARLY:
            self._crowd.complain(f"{self.seat.device}: lacks record {self.through + 1} of {self.topic}")
            self.through = min(self._early) - 1


class _Connection(TocsinConnection):
    """A connection that brings its position along and says when it is lost."""

    def __init__(self, subscriber: _Subscriber, order: Connect) -> None:
        no_list: list[Kept] = []  # Being there, it makes each notification be looked at.
        super().__init__(subscriber.seat, f"{order.host}:{order.port}", order.token, order.channel, no_list)
        self._subscriber = subscriber
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def go_on(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self.lost.done():
            self.lost.set_result(None)

    def say(self, message: Any) -> None:
        if isinstance(message, Hello):
            subscribes = [
                Subscribe(one.channel, one.parameters, self._subscriber.position, 1) for one in message.subscriptions
            ]
            message = Hello(message.token, message.device, subscribes)
        super().say(message)

    def _note(self, notification: memoryview) -> None:
        self._subscriber.note(notification)


class _Subscribers:
    """Inside the process: everybody."""

    def __init__(self) -> None:
        self._everybody: list[_Subscriber] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._turn = asyncio.Semaphore(_OPENING)
        self._latencies_ms: Counter[int] = Counter()
        self._bad: list[str] = []
        self._came_back = 0

    def got(self, sent_us: int) -> None:
        self._latencies_ms[min(_MAX_LATENCY_MS, (time.time_ns() // 1000 - sent_us) // 1000)] += 1

    def complain(self, what: str) -> None:
        self._bad.append(what)

    async def do(self, command: _Command) -> Seen:
        match command:
            case Connect():
                await self._connect(command)
            case Cut():
                for one in self._everybody:
                    if one.connection is not None:
                        one.connection.cut()
            case Stall(every):
                self._stall(every)
            case Wait():
                await self._wait(command)
                return self._seen(command.last)
            case Report():
                pass
        seen = self._seen({})
        if isinstance(command, Report):
            self._latencies_ms.clear()
            self._came_back = 0
        return seen

    async def _connect(self, order: Connect) -> None:
        first: list[asyncio.Future[None]] = []
        for seat in order.seats:
            subscriber = _Subscriber(seat, self)
            self._everybody.append(subscriber)
            is_there: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            first.append(is_there)
            self._tasks.append(asyncio.create_task(self._stay(subscriber, order, len(self._everybody), is_there)))
        await asyncio.wait(first, timeout=_OPEN_TIMEOUT_S)

    async def _stay(self, subscriber: _Subscriber, order: Connect, number: int, is_there: asyncio.Future[None]) -> None:
        """Connect, and connect again whenever the connection is lost."""
        loop = asyncio.get_running_loop()
        pause_s = _FIRST_PAUSE_S
        source = f"127.0.0.{1 + number // _PORTS_PER_ADDRESS}"
        while True:
            connection = _Connection(subscriber, order)
            try:
                async with self._turn:
                    opening = loop.create_connection(
                        lambda made=connection: made, order.host, order.port, local_addr=(source, 0)
                    )
                    await asyncio.wait_for(opening, _OPEN_TIMEOUT_S)
                    await asyncio.wait_for(connection.ready, _OPEN_TIMEOUT_S)
                if not connection.failure:
                    subscriber.connection = connection
                    pause_s = _FIRST_PAUSE_S
                    if is_there.done():
                        self._came_back += 1
                    else:
                        is_there.set_result(None)
                    await connection.lost
                    subscriber.connection = None
            except (OSError, TimeoutError):
                connection.close()
            await asyncio.sleep(pause_s)
            pause_s = min(_LAST_PAUSE_S, pause_s * 2)

    def _stall(self, every: int) -> None:
        for number, one in enumerate(self._everybody):
            one.is_stalled = bool(every) and number % every == 0
            if one.connection is not None:
                if one.is_stalled:
                    one.connection.pause()
                else:
                    one.connection.go_on()

    async def _wait(self, command: Wait) -> None:
        deadline = time.monotonic() + command.timeout_s
        while self._behind(command.last) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # An event would have to be thought of at each message.

    def _behind(self, last: dict[str, int]) -> int:
        return sum(not one.is_stalled and one.through < last.get(one.topic, -1) for one in self._everybody)

    def _seen(self, last: dict[str, int]) -> Seen:
        return Seen(
            len(self._everybody),
            sum(one.connection is not None for one in self._everybody),
            self._latencies_ms.total(),
            self._behind(last),
            self._came_back,
            *(_quantile(self._latencies_ms, share) for share in (0.5, 0.99, 1.0)),
            self._bad[:50],
        )


def _quantile(counts: Counter[int], share: float) -> int:
    left = share * counts.total()
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return 0


if __name__ == "__main__":
    serve(_Command, lambda: _Subscribers().do)
