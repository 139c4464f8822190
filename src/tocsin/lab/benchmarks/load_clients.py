"""Subscribers by the thousand in a process of their own, so that a server is measured under load from outside.

`LoadClients` is the handle on such a process; `python -m` this module is the process itself.
"""

from __future__ import annotations

import asyncio
import time

import msgspec

from tocsin.lab.benchmarks.json_process import JsonProcess, serve
from tocsin.lab.benchmarks.load_wire import (
    ConnectionFactory,
    Kept,
    LoadConnection,
    MqttConnection,
    NatsConnection,
    Seat,
    TocsinConnection,
)

TOCSIN = "tocsin"
NATS = "nats"
MQTT = "mqtt"

#: Connections that are being opened at a time: more would only wait in the server's backlog.
_OPENING = 50
#: Linux gives about 28,000 ports to one address on the way to another; loopback has addresses enough.
_PORTS_PER_ADDRESS = 20_000
_OPEN_TIMEOUT_S = 60.0
#: How often it is looked whether everything has come. Looking at a thousand connections takes 0.1 ms.
_LOOK_EVERY_S = 0.02


class Connect(msgspec.Struct, frozen=True, tag="connect"):
    """Open a connection for each seat, and answer when all are subscribed. `channel` and `token` are for Tocsin."""

    kind: str
    host: str
    port: int
    seats: list[Seat]
    channel: str = ""
    token: str = ""
    #: Keep each record's number and times, for `Report`.
    keep: bool = False


class Wait(msgspec.Struct, frozen=True, tag="wait"):
    """Answer when `messages` came in all, counted from the beginning; or, with what came by then, when a connection has
    failed or after `timeout_s`.
    """

    messages: int
    timeout_s: float


class Report(msgspec.Struct, frozen=True, tag="report"):
    """Answer with what was kept."""


class Counted(msgspec.Struct, frozen=True):
    """What the connections were sent so far: all together, and the least and the most that one of them was."""

    connections: int = 0
    messages: int = 0
    least_messages: int = 0
    most_messages: int = 0
    least_bytes: int = 0
    most_bytes: int = 0
    failures: list[str] = []

    def each_got(self, messages: int, size_bytes: int) -> bool:
        """Whether each connection has just so many messages and bytes."""
        return (
            not self.failures
            and self.least_messages == self.most_messages == messages
            and self.least_bytes == self.most_bytes == size_bytes
        )


_Command = Connect | Wait | Report
_MAX_FAILURES_TOLD = 10


class LoadClients(JsonProcess):
    """The handle on a process of subscribers. When the block ends, so does the process."""

    def __init__(self) -> None:
        super().__init__(__name__)

    def connect(self, order: Connect) -> Counted:
        """Open connections, beside those there are. Raises RuntimeError if one can't be opened or subscribed."""
        counted = self.ask(order, Counted)
        if counted.failures:
            raise RuntimeError(f"subscribers could not connect to {order.kind}: {'; '.join(counted.failures)}")
        return counted

    def wait(self, messages: int, timeout_s: float) -> Counted:
        return self.ask(Wait(messages, timeout_s), Counted)

    def kept(self) -> list[Kept]:
        return self.ask(Report(), list[Kept])


class _Subscribers:
    """Inside the process: all connections."""

    def __init__(self) -> None:
        self._connections: list[LoadConnection] = []
        self._kept: list[Kept] = []

    async def do(self, command: _Command) -> Counted | list[Kept]:
        match command:
            case Connect():
                await self._connect(command)
                return self._counted()
            case Wait():
                deadline = time.monotonic() + command.timeout_s
                counted = self._counted()
                # An event would have to be thought of at each message, which is where time is short.
                while counted.messages < command.messages and not counted.failures and time.monotonic() < deadline:
                    await asyncio.sleep(_LOOK_EVERY_S)
                    counted = self._counted()
                return counted
            case Report():
                return self._kept

    async def _connect(self, order: Connect) -> None:
        loop = asyncio.get_running_loop()
        make = self._factory(order)
        turn = asyncio.Semaphore(_OPENING)

        async def connect(number: int, seat: Seat) -> None:
            connection = make(seat)
            self._connections.append(connection)
            source = f"127.0.0.{1 + number // _PORTS_PER_ADDRESS}"
            async with turn:
                try:
                    await asyncio.wait_for(
                        loop.create_connection(lambda: connection, order.host, order.port, local_addr=(source, 0)),
                        _OPEN_TIMEOUT_S,
                    )
                    await asyncio.wait_for(connection.ready, _OPEN_TIMEOUT_S)
                except (OSError, TimeoutError) as exc:
                    connection.failure = connection.failure or f"{seat.device}: {exc!r}"

        before = len(self._connections)
        await asyncio.gather(*(connect(before + number, seat) for number, seat in enumerate(order.seats)))

    def _factory(self, order: Connect) -> ConnectionFactory:
        match order.kind:
            case "tocsin":
                kept = self._kept if order.keep else None
                address = f"{order.host}:{order.port}"
                return lambda seat: TocsinConnection(seat, address, order.token, order.channel, kept)
            case "nats":
                return NatsConnection
            case "mqtt":
                return MqttConnection
            case _:
                raise ValueError(f"no such protocol: {order.kind}")

    def _counted(self) -> Counted:
        messages = [connection.messages for connection in self._connections]
        sizes = [connection.size_bytes for connection in self._connections]
        failures = [connection.failure for connection in self._connections if connection.failure]
        return Counted(
            len(messages),
            sum(messages),
            min(messages, default=0),
            max(messages, default=0),
            min(sizes, default=0),
            max(sizes, default=0),
            failures[:_MAX_FAILURES_TOLD],
        )


if __name__ == "__main__":
    serve(_Command, lambda: _Subscribers().do)
