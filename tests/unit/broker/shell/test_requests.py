"""A stranger's HTTP connection takes up little, and not for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from tocsin.broker.core.strangers import Strangers
from tocsin.broker.shell.requests import RequestProtocol

pytestmark = pytest.mark.shell

_WITHIN_S = 5.0


async def _app(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """Where two strangers at a time get 0.2 s each for their request."""
    config = uvicorn.Config(_app, log_config=None, lifespan="off")
    config.load()
    make = partial(
        RequestProtocol,
        Strangers(most=2, most_per_address=2),
        0.2,
        config=config,
        server_state=ServerState(),
        app_state={},
    )
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()


async def _ended(reader: asyncio.StreamReader) -> bytes:
    """What came until the other side ended the connection."""
    try:
        return await asyncio.wait_for(reader.read(), _WITHIN_S)
    except ConnectionResetError:
        return b""


async def test_a_request_that_is_not_completed_is_cut(port: int) -> None:
    """Whoever sends a bit of it now and then, too; and on a connection that had a request before."""
    for before in (b"", b"GET / HTTP/1.1\r\nHost: b\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(before)
        for _ in range(50):
            writer.write(b"G")
            await asyncio.sleep(0.02)
            if reader.at_eof() or writer.is_closing() or reader.exception() is not None:
                break
        else:
            pytest.fail("the connection is still there")
        writer.close()


async def test_headers_without_end_are_cut(port: int) -> None:
    """The connection is closed without an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000)
    assert await _ended(reader) == b""
    writer.close()


async def test_strangers_beyond_the_limit_are_refused_and_others_served(port: int) -> None:
    """Those whose request has come count no more, so any number of them can follow one another."""
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    await asyncio.sleep(0.01)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await _ended(reader) == b""
    writer.close()
    for quiet, quiet_writer in silent:
        assert await _ended(quiet) == b""
        quiet_writer.close()
    for _ in range(4):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n")
        assert (await _ended(reader)).endswith(b"ok")
        writer.close()
