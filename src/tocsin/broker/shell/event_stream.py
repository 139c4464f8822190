"""Subscribers over Server-Sent Events: an HTTP response that does not end.

The events carry the same messages as a WebSocket. `id` has the position of each requested subscription, in their order,
so that `Last-Event-ID` is enough to carry on, at any broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from tocsin.broker.core.events import ConnectionId
from tocsin.broker.shell.connections import Listener
from tocsin.errors import InvalidValue
from tocsin.protocol import messages
from tocsin.protocol.frames import text_of

#: A comment this often keeps proxies from giving up on a quiet stream.
_KEEP_ALIVE_S = 15.0
#: How long the last event may take to get out before the connection is cut.
_CLOSE_TIMEOUT_S = 2.0
_NOTHING = ""
#: Messages after which a stream is at another position.
_WITH_POSITION = (messages.Passed, messages.Failed, messages.HistoryGone)


class EventStream:
    """One such response, as a connection of the node."""

    def __init__(
        self,
        connection: ConnectionId,
        listener: Listener,
        count: int,
        *,
        max_queued_bytes: int,
        cut: Callable[[], None] = lambda: None,
    ) -> None:
        """`cut` ends the underlying connection, even if something still waits to be sent."""
        self.id = connection
        self._cut = cut
        self._cutting: asyncio.TimerHandle | None = None
        self._listener = listener
        self.heard_at_s = listener.now_s()
        self._max_queued_bytes = max_queued_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._is_congested = False
        self._is_open = True
        self._wake = asyncio.Event()
        #: The position of each requested subscription; the index of a backend subscription among them.
        self._positions = [_NOTHING] * count
        self._index_of: dict[int, int] = {}

    # From the node

    def greeted(self) -> None:
        """The request is complete by then, so it is no stranger."""

    def send(self, message: messages.FromBroker) -> None:
        if isinstance(message, messages.Subscribed) and message.request:
            self._index_of[message.subscription] = message.request - 1
            self._positions[message.request - 1] = message.position
        elif isinstance(message, _WITH_POSITION) and message.subscription in self._index_of:
            self._positions[self._index_of[message.subscription]] = message.position
        kind = message.__struct_config__.tag
        self._queue(b"event: %b\n%bdata: %b\n\n" % (str(kind).encode(), self._id_line(), messages.encode(message)))

    def deliver(self, wires: Sequence[bytes]) -> int:
        size = self._pending_bytes
        for wire in wires:
            text = text_of(wire)
            if not messages.is_notification(text):
                self.send(messages.decode_from_broker(text))
                continue
            result = messages.decode_result(text)
            index = self._index_of.get(result.subscription)
            if index is not None:
                self._positions[index] = result.position
            self._queue(b"event: notification\n%bdata: %b\n\n" % (self._id_line(), text))
        return self._pending_bytes - size

    def is_congested(self) -> bool:
        return self._is_congested

    def ping(self) -> None:
        """The other side can't answer; only sending shows whether it is there."""
        self.heard_at_s = self._listener.now_s()

    def close(self, code: int, reason: str) -> None:
        if self._is_open:
            text = b'{"type":"close","code":%d,"reason":%b}' % (code, messages.encode(reason))
            self._queue(b"event: close\ndata: %b\n\n" % text)
            # A client that does not read must not keep the connection and its queue for ever.
            self._cutting = asyncio.get_running_loop().call_later(_CLOSE_TIMEOUT_S, self._cut)
        self._is_open = False
        self._wake.set()

    # From the server

    async def events(self) -> AsyncIterator[bytes]:
        """The events, as they come; all pending ones in one piece."""
        try:
            while True:
                if self._pending:
                    data = b"".join(self._pending)
                    self._pending.clear()
                    yield data
                    self.heard_at_s = self._listener.now_s()  # it went out
                    self._pending_bytes = sum(map(len, self._pending))
                    if self._is_congested and self._pending_bytes < self._max_queued_bytes // 4:
                        self._is_congested = False
                        self._listener.flushed(self)
                elif not self._is_open:
                    return
                else:
                    self._wake.clear()
                    try:
                        await asyncio.wait_for(self._wake.wait(), _KEEP_ALIVE_S)
                    except TimeoutError:
                        self._pending.append(b": still here\n\n")
        finally:
            self._is_open = False
            if self._cutting is not None:
                self._cutting.cancel()
            self._listener.lost(self)

    def _id_line(self) -> bytes:
        return b"id: %b\n" % ",".join(self._positions).encode() if any(self._positions) else b""

    def _queue(self, data: bytes) -> None:
        if not self._is_open:
            return
        self._pending.append(data)
        self._pending_bytes += len(data)
        self._wake.set()
        if self._pending_bytes > self._max_queued_bytes and not self._is_congested:
            self._is_congested = True
            self._listener.congested(self)


def with_positions(calls: Sequence[messages.Subscribe], last_event_id: str) -> list[messages.Subscribe]:
    """`calls`, numbered, each with its position from a `Last-Event-ID`."""
    positions = last_event_id.split(",") if last_event_id else []
    if positions and len(positions) != len(calls):
        raise InvalidValue(
            f"Last-Event-ID holds {len(positions)} positions for {len(calls)} subscriptions; ask for the same ones"
            " in the same order"
        )
    for one in positions:
        if one:
            messages.parse_position(one)
    return [
        messages.Subscribe(call.channel, call.parameters, positions[at] if positions else "", at + 1, call.where)
        for at, call in enumerate(calls)
    ]
