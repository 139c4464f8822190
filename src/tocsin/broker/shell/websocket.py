"""Subscribers' WebSockets. uvicorn reads the request and hands the connection over to us as it stands.

The handshake and incoming data go through the sans-IO core of `websockets`. Outgoing frames are built once for all
connections and written straight to the transport: one write for all pending frames of a connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol

from tocsin.broker.core.events import ConnectionId
from tocsin.broker.core.strangers import Strangers
from tocsin.broker.shell.connections import Listener
from tocsin.broker.shell.requests import address_of
from tocsin.model.token_bucket import TokenBucket
from tocsin.protocol.frames import text_frame
from tocsin.protocol.messages import CLOSE_TOO_MUCH, FromBroker, encode

PATH = "/v1/connect"
#: A close frame holds at most 123 bytes of reason.
_MAX_REASON_BYTES = 123
#: How long writing a close frame may take before the connection is cut.
_CLOSE_TIMEOUT_S = 2.0

#: websockets would log each frame at DEBUG; building those texts costs time.
_silent = logging.getLogger("tocsin.broker.shell.websocket.frames")
_silent.disabled = True


class SubscriberSocket(asyncio.Protocol):
    __slots__ = (
        "_address",
        "_allowed",
        "_core",
        "_is_congested",
        "_is_open",
        "_is_stranger",
        "_listener",
        "_max_queued_bytes",
        "_origins",
        "_parts",
        "_strangers",
        "_transport",
        "heard_at_s",
        "id",
    )

    def __init__(
        self,
        connection: ConnectionId,
        listener: Listener,
        *,
        strangers: Strangers,
        origins: Callable[[str, str], bool],
        max_message_bytes: int,
        max_queued_bytes: int,
        rate_per_s: float,
        burst: int,
    ) -> None:
        self.id = connection
        self._listener = listener
        self.heard_at_s = listener.now_s()
        self._strangers = strangers
        self._address = ""
        self._is_stranger = False
        self._origins = origins
        self._max_queued_bytes = max_queued_bytes
        self._allowed = TokenBucket(rate_per_s, burst)
        self._core = ServerProtocol(max_size=max_message_bytes, logger=_silent)
        self._transport: Any = None
        self._is_open = False
        self._is_congested = False
        self._parts: list[bytes] = []

    # From the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(high=self._max_queued_bytes)
        self._address = address_of(transport)
        self._is_stranger = self._strangers.enter(self._address)

    def data_received(self, data: bytes) -> None:
        self.heard_at_s = self._listener.now_s()
        self._core.receive_data(data)
        for event in self._core.events_received():
            if isinstance(event, Request):
                self._answer(event)
            elif isinstance(event, Frame):
                self._take(event)
        if self._core.state is not State.OPEN:
            self._lose()
        self._flush_core()
        if self._core.close_expected():
            self._transport.close()

    def eof_received(self) -> None:
        self._lose()
        self._core.receive_eof()
        self._flush_core()

    def pause_writing(self) -> None:
        self._is_congested = True
        if self._is_open:
            self._listener.congested(self)

    def resume_writing(self) -> None:
        self._is_congested = False
        if self._is_open:
            self._listener.flushed(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 why it was lost changes nothing
        self.greeted()
        self._lose()

    def shutdown(self) -> None:
        """uvicorn is ending and wants its connections closed."""
        self.close(CloseCode.GOING_AWAY, "the broker ends")

    # From the node

    def greeted(self) -> None:
        """The connection has shown a good token, or is gone."""
        if self._is_stranger:
            self._is_stranger = False
            self._strangers.leave(self._address)

    def send(self, message: FromBroker) -> None:
        if self._is_open:
            self._transport.write(text_frame(encode(message)))

    def deliver(self, wires: Sequence[bytes]) -> int:
        if not self._is_open:
            return 0
        data = wires[0] if len(wires) == 1 else b"".join(wires)
        self._transport.write(data)
        return len(data)

    def is_congested(self) -> bool:
        return self._is_congested

    def ping(self) -> None:
        if self._is_open:
            self._core.send_ping(b"")
            self._flush_core()

    def close(self, code: int, reason: str) -> None:
        self._is_open = False
        if self._transport is None or self._transport.is_closing():
            return
        if self._core.state is State.OPEN:
            self._core.send_close(code, reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore"))
            self._flush_core()
        # A client that does not read must not keep the connection and its queue for ever.
        asyncio.get_running_loop().call_later(_CLOSE_TIMEOUT_S, self._transport.abort)
        self._transport.close()

    # Parts

    def _lose(self) -> None:
        """Nothing may be written from now on: the core is about to end our side, or has."""
        if self._is_open:
            self._is_open = False
            self._listener.lost(self)

    def _answer(self, request: Request) -> None:
        try:
            path = urlsplit(request.path)
        except ValueError:
            path = urlsplit("")  # Such as //[, which is no address.
        if not self._is_stranger:
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE, "too many connections have not sent `hello` yet; try again later\n"
            )
        elif path.path != PATH:
            self._refuse(HTTPStatus.NOT_FOUND, f"WebSockets are served at {PATH}\n")
        elif path.query:
            # Tokens in addresses end up in logs; they belong into `hello`.
            self._refuse(HTTPStatus.BAD_REQUEST, f"{PATH} takes no query; send your token in `hello`\n")
        elif not self._origins(request.headers.get("Origin", ""), request.headers.get("Host", "")):
            self._refuse(HTTPStatus.FORBIDDEN, "this origin is not in allowed_origins\n")
        else:
            response = self._core.accept(request)
            self._core.send_response(response)
            self._flush_core()
            if self._core.state is State.OPEN:
                self._is_open = True
                self._listener.opened(self)
            else:
                self._transport.close()

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self._core.send_response(self._core.reject(status, text))
        self._flush_core()
        self._transport.close()

    def _take(self, frame: Frame) -> None:
        if not self._is_open:
            return
        if frame.opcode is Opcode.CLOSE:
            self._lose()
        elif not self._allowed.take(self.heard_at_s):
            # Every frame counts: answering a ping costs as much as reading a message.
            self._listener.lost(self)
            self.close(CLOSE_TOO_MUCH, "too many messages; slow down")
        elif frame.opcode is Opcode.TEXT or (frame.opcode is Opcode.CONT and self._parts):
            self._parts.append(bytes(frame.data))
            if frame.fin:
                text = b"".join(self._parts)
                self._parts.clear()
                self._listener.received(self, text)
        elif frame.opcode is Opcode.BINARY:
            self._listener.lost(self)
            self.close(CloseCode.UNSUPPORTED_DATA, "messages are text: JSON")

    def _flush_core(self) -> None:
        for data in self._core.data_to_send():
            if data:
                self._transport.write(data)
            elif self._transport.can_write_eof():
                self._transport.write_eof()
