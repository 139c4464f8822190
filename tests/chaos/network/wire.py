"""Looks over the shoulder of the subscribers' connections: what came that was not theirs, and how to cut them.

The SDK drops what it did not ask for, so that the application never sees a broker's mistake. Here it is seen.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tocsin.client.core import events as ev
from tocsin.client.shell import connection, driver
from tocsin.client.shell.connection import Connection
from tocsin.protocol import messages


class Wire:
    """All connections of one life of a subscriber."""

    def __init__(self, on_stray: Callable[[str], None]) -> None:
        self._on_stray = on_stray
        self._sockets: list[ClientConnection] = []

    def opened(self, opened: ClientConnection) -> None:
        self._sockets.append(opened)

    def cut(self) -> None:
        """End the connections without a word, as when a process dies or a cable is pulled."""
        for opened in self._sockets:
            opened.transport.abort()
        self._sockets.clear()

    def half_close(self) -> None:
        """Say no more, and go on listening: an end of which the other side learns without a goodbye."""
        for opened in self._sockets:
            with contextlib.suppress(OSError):  # It has ended already.
                opened.transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
        self._sockets.clear()

    def watch(self, known: dict[int, str], message: messages.FromBroker) -> None:
        """`known` are the subscriptions that the broker named on this connection, and their topics."""
        match message:
            case messages.Notification():
                topic, payload = known.get(message.subscription), bytes(message.payload)
                if topic is None:
                    self._on_stray(f"got {message.position}, of a subscription that it was not told of there")
                elif f'"{topic}"'.encode() not in payload:
                    self._on_stray(f"got {payload.decode()} at {message.position}, which is for {topic}")
            case messages.Welcome():
                known.update((one.subscription, str(one.parameters["topic"])) for one in message.subscriptions)
            case messages.Subscribed():
                known[message.subscription] = str(message.parameters["topic"])
            case messages.Unsubscribed():
                known.pop(message.subscription, None)
            case _:
                pass


#: Everything that a subscriber starts inherits it.
_wire: ContextVar[Wire] = ContextVar("wire")


class _WatchedConnection(Connection):
    def __init__(self, link: int, url: str, tls: Any, report: Callable[[Any], None], *others: Any) -> None:
        wire, known = _wire.get(), dict[int, str]()

        def watched(event: ev.Opened | ev.Closed | ev.Received) -> None:
            if isinstance(event, ev.Received):
                wire.watch(known, event.message)
            report(event)

        super().__init__(link, url, tls, watched, *others)


def follow(wire: Wire) -> None:
    """From here on, connections opened by this task and all that it starts are `wire`'s."""
    _wire.set(wire)


def install() -> None:
    """Watch all connections of this process."""

    async def remembered(*arguments: Any, **options: Any) -> ClientConnection:
        opened = await connect(*arguments, **options)
        _wire.get().opened(opened)
        return opened

    for module, name, watched in ((connection, "connect", remembered), (driver, "Connection", _WatchedConnection)):
        assert hasattr(module, name), f"{module} opens no connections any more"
        setattr(module, name, watched)
