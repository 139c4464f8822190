"""Limits on how long a request may take to arrive, and on the number of connections, in uvicorn's HTTP protocol.

A server that waits for ever for the end of a request can be filled up by any slow client.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: An honest client sends a request's headers at once.
HEADERS_WITHIN_S = 10.0
#: Our clients' take less than 2 KiB, including the longest token; browsers' may take more.
MAX_HEADER_BYTES = 32 << 10
#: A body may take long if it keeps coming: at least this many bytes in each period.
BODY_LOOK_S = 10.0
BODY_PROGRESS_BYTES = 10 << 10
#: Each takes some 15 kB: 120 MB in all.
MAX_CONNECTIONS = 8192


def bounded_http(max_connections: int = MAX_CONNECTIONS) -> type[BoundedHttp]:
    """The protocol class for uvicorn's `http`."""
    return type("BoundedHttp", (BoundedHttp,), {"max_connections": max_connections})


class BoundedHttp(HttpToolsProtocol):
    """Closes connections whose requests do not arrive. At the limit, closes an idle connection for a new one."""

    headers_within_s = HEADERS_WITHIN_S
    body_look_s = BODY_LOOK_S
    max_connections = MAX_CONNECTIONS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._is_in_headers = True
        self._header_bytes = 0
        self._body_bytes = 0

    @property
    def is_idle(self) -> bool:
        """Between two requests."""
        return self._timer is None and bool(self.cycle) and self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            others = cast(set[Any], self.connections)
            idle = next((one for one in others if isinstance(one, BoundedHttp) and one.is_idle), self)
            idle.transport.close()
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_in_headers:
            self._header_bytes += len(data)
        self._body_bytes += len(data)
        super().data_received(data)
        # A body in the same data was counted too, but then the headers are complete.
        if self._is_in_headers and self._header_bytes > MAX_HEADER_BYTES:
            self._stop()
            self.transport.close()

    def handle_websocket_upgrade(self) -> None:
        self._stop()
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._expect_headers()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._is_in_headers = False
        self._expect_body()

    def on_message_complete(self) -> None:
        self._stop()
        super().on_message_complete()

    def _expect_headers(self) -> None:
        self._is_in_headers, self._header_bytes = True, 0
        self._restart(self.headers_within_s)

    def _expect_body(self) -> None:
        self._body_bytes = 0
        self._restart(self.body_look_s)

    def _restart(self, after_s: float) -> None:
        self._stop()
        self._timer = self.loop.call_later(after_s, self._look)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        # If reading is paused because we are slow ourselves, the client can't be late.
        is_coming = self._body_bytes >= BODY_PROGRESS_BYTES or self.flow.read_paused
        if not self._is_in_headers and is_coming:
            self._expect_body()
        else:
            self._timer = None
            self.transport.close()
