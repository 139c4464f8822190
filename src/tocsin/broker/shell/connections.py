"""The node's interface to a subscriber's connection, whatever its transport."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tocsin.broker.core.events import ConnectionId
from tocsin.protocol.messages import FromBroker


class Connection(Protocol):
    """Nothing here waits: messages that can't be sent yet are queued, and the node hears when they become too many."""

    id: ConnectionId
    #: When something last came from the other side, monotonic.
    heard_at_s: float

    def greeted(self) -> None:
        """The other side has shown a good token."""

    def send(self, message: FromBroker) -> None: ...

    def deliver(self, wires: Sequence[bytes]) -> int:
        """Send notifications in one write; returns how many bytes."""

    def is_congested(self) -> bool: ...

    def ping(self) -> None:
        """Make the other side show that it is there."""

    def close(self, code: int, reason: str) -> None: ...


class Listener(Protocol):
    """The node, as a connection sees it."""

    def now_s(self) -> float:
        """The monotonic time that finds silent connections."""

    def opened(self, connection: Connection) -> None: ...

    def received(self, connection: Connection, text: bytes) -> None: ...

    def congested(self, connection: Connection) -> None: ...

    def flushed(self, connection: Connection) -> None: ...

    def lost(self, connection: Connection) -> None: ...
