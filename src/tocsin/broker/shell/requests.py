"""HTTP connections of a broker: a stranger gets little time and room until its request is complete.

uvicorn itself waits for the rest of a request for ever, and takes headers of any length.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tocsin.broker.core.strangers import Strangers

#: All headers of a request; a token has less than 1 kB, a `Last-Event-ID` up to 2.5.
_MAX_HEADERS_BYTES = 64 << 10
#: The key in a request's scope of the function that cuts its connection.
CUT = "tocsin.cut"


class RequestProtocol(HttpToolsProtocol):
    """One HTTP connection, until it ends or becomes a WebSocket."""

    def __init__(self, strangers: Strangers, request_timeout_s: float, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._strangers = strangers
        self._request_timeout_s = request_timeout_s
        self._address = ""
        self._is_stranger = False
        self._headers_bytes = 0
        self._too_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = address_of(transport)
        self._is_stranger = self._strangers.enter(self._address)
        if self._is_stranger:
            self._wait_for_request()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._too_late is not None:
            self._headers_bytes += len(data)
            if self._headers_bytes > _MAX_HEADERS_BYTES:
                self.transport.abort()
                return
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._request_came()
        self.scope[CUT] = self.transport.abort  # type: ignore[literal-required]
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing() and not self.pipeline:
            self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._request_came()
        super().connection_lost(exc)

    def _wait_for_request(self) -> None:
        self._headers_bytes = 0
        if self._too_late is None:
            self._too_late = self.loop.call_later(self._request_timeout_s, self.transport.abort)

    def _request_came(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None
        if self._is_stranger:
            self._is_stranger = False
            self._strangers.leave(self._address)


def address_of(transport: asyncio.BaseTransport) -> str:
    """The host at the other end; all that are no internet addresses count as one."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple | list) and peer else ""
