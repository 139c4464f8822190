"""Requests that do not arrive are not waited for, and connections are bounded."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest
import uvicorn
from uvicorn.server import ServerState

from tocsin.runtime.connections import BODY_PROGRESS_BYTES, MAX_HEADER_BYTES, BoundedHttp

_LATE_S = 0.05


class Impatient(BoundedHttp):
    headers_within_s = _LATE_S
    body_look_s = _LATE_S
    max_connections = 2


class Peer:
    """One connection, without a socket."""

    def __init__(self, state: ServerState, received: list[bytes]) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                body, more = b"", True
                while more:
                    message = await receive()
                    body, more = body + message.get("body", b""), message.get("more_body", False)
                received.append(body)
                await send({"type": "http.response.start", "status": 204, "headers": []})
                await send({"type": "http.response.body"})

        config = uvicorn.Config(app, log_config=None, lifespan="off")
        self.protocol = Impatient(config, state, {})
        self.transport = Mock()
        self.transport.get_extra_info.return_value = None
        self.transport.is_closing.side_effect = lambda: self.is_closed
        self.protocol.connection_made(self.transport)

    @property
    def is_closed(self) -> bool:
        return bool(self.transport.close.called)

    def send(self, data: bytes) -> None:
        self.protocol.data_received(data)

    async def is_closed_late(self) -> bool:
        await asyncio.sleep(3 * _LATE_S)
        return self.is_closed

    def end(self) -> None:
        self.protocol.connection_lost(None)


@pytest.fixture
def received() -> list[bytes]:
    return []


@pytest.fixture
def state() -> ServerState:
    return ServerState()


@pytest.fixture
async def peer(state: ServerState, received: list[bytes]) -> Peer:
    return Peer(state, received)


_HEADERS = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 40960\r\n\r\n"


@pytest.mark.parametrize("start", [b"", b"POST / HT", b"POST / HTTP/1.1\r\nHost: x\r\n", _HEADERS, _HEADERS + b"x"])
async def test_a_request_that_stops_coming_is_closed(peer: Peer, start: bytes) -> None:
    """Whatever part of it has come: nothing, some headers, or some of the body."""
    if start:
        peer.send(start)
    assert not peer.is_closed
    assert await peer.is_closed_late()
    peer.end()


async def test_a_trickle_is_not_enough(peer: Peer) -> None:
    """Headers have a time of their own, however often a byte comes."""
    for byte in _HEADERS[:20]:
        peer.send(bytes([byte]))
        await asyncio.sleep(_LATE_S / 10)
    assert await peer.is_closed_late()
    peer.end()


async def test_a_body_that_keeps_coming_may_take_its_time(peer: Peer, received: list[bytes]) -> None:
    peer.send(_HEADERS)
    for _ in range(4):
        peer.send(b"x" * BODY_PROGRESS_BYTES)
        await asyncio.sleep(_LATE_S)
    assert received == [b"x" * 4 * BODY_PROGRESS_BYTES]
    peer.end()


async def test_headers_without_end_are_not_gathered(peer: Peer) -> None:
    """A connection whose headers exceed the limit is closed before they have ended."""
    peer.send(b"GET / HTTP/1.1\r\n")
    peer.send(b"X: " + b"y" * MAX_HEADER_BYTES)
    assert peer.is_closed
    peer.end()


async def test_an_idle_connection_makes_room_and_a_new_one_is_refused_if_none_is_idle(
    state: ServerState, received: list[bytes]
) -> None:
    """Strangers who hold connections open keep nobody out."""
    idle, busy = Peer(state, received), Peer(state, received)
    idle.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    busy.send(_HEADERS)
    for _ in range(20):  # Until it is answered.
        await asyncio.sleep(0)
    assert received == [b""]
    third = Peer(state, received)
    assert (idle.is_closed, busy.is_closed, third.is_closed) == (True, False, False)
    idle.end()
    fourth = Peer(state, received)
    assert (busy.is_closed, third.is_closed, fourth.is_closed) == (False, False, True)
    for one in (busy, third, fourth):
        one.end()
