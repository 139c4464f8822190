"""A broker's open connections: which have yet to say hello, and which have been silent for too long."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tocsin.broker.core.events import ConnectionId
from tocsin.broker.shell.connections import Connection


@dataclass(slots=True, eq=False)
class OpenConnections:
    _hello_timeout_s: float
    _idle_after_s: float
    _connections: dict[ConnectionId, Connection] = field(init=False, default_factory=dict)
    #: Connections that have not said hello yet, and when each was opened.
    _opened_at_s: dict[ConnectionId, float] = field(init=False, default_factory=dict)
    #: By connection, since when a ping has been unanswered.
    _pinged_at_s: dict[ConnectionId, float] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        """Those that are open now: connections may be removed meanwhile."""
        return iter(list(self._connections.values()))

    def get(self, connection: ConnectionId) -> Connection | None:
        return self._connections.get(connection)

    def add(self, connection: Connection, now_s: float) -> None:
        self._connections[connection.id] = connection
        self._opened_at_s[connection.id] = now_s

    def remove(self, connection: ConnectionId) -> bool:
        """Whether it was open."""
        self._opened_at_s.pop(connection, None)
        self._pinged_at_s.pop(connection, None)
        return self._connections.pop(connection, None) is not None

    def awaits_hello(self, connection: ConnectionId) -> bool:
        return connection in self._opened_at_s

    def greeted(self, connection: ConnectionId) -> None:
        del self._opened_at_s[connection]

    def overdue(self, now_s: float) -> Iterator[tuple[Connection, str]]:
        """Those that said no hello, or do not answer pings, and the reason. Others that are silent are pinged."""
        for connection in self:
            if now_s - self._opened_at_s.get(connection.id, now_s) > self._hello_timeout_s:
                # Its computer may have slept: the next attempt may be quicker.
                yield connection, "no hello within the time allowed"
                continue
            pinged_at_s = self._pinged_at_s.get(connection.id)
            if pinged_at_s is not None and connection.heard_at_s >= pinged_at_s:
                del self._pinged_at_s[connection.id]
                pinged_at_s = None
            if pinged_at_s is not None and now_s - pinged_at_s > self._idle_after_s:
                yield connection, "no answer to pings"
            elif pinged_at_s is None and now_s - connection.heard_at_s > self._idle_after_s:
                self._pinged_at_s[connection.id] = now_s
                connection.ping()
