"""Asynchronous HTTP clients fail in one way, whatever a dying server does to their connections."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
import uvloop

from tocsin.runtime.http_transport import AsyncTransport

pytestmark = pytest.mark.shell

_REQUESTS = 200


@contextmanager
def _resetting_server() -> Iterator[str]:
    """Takes connections, and resets each within two milliseconds."""
    at_once = struct.pack("ii", 1, 0)
    chance = random.Random(7)

    def reset_all(listening: socket.socket) -> None:
        while True:
            try:
                taken, _ = listening.accept()
            except OSError:
                return
            time.sleep(chance.random() * 0.002)
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            taken.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=reset_all, args=(listening,))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


async def _failures(url: str) -> list[Exception]:
    """What requests end with, on an event loop that is busy: it looks at connections late."""
    failures: list[Exception] = []
    is_over = False

    async def be_busy() -> None:
        while not is_over:
            time.sleep(0.002)  # noqa: ASYNC251 - this is the load
            await asyncio.sleep(0)

    async def ask(http: httpx.AsyncClient) -> None:
        try:
            await http.get("/")
        except Exception as exc:  # noqa: BLE001 - which ones there are is the question
            failures.append(exc)

    async with httpx.AsyncClient(base_url=url, transport=AsyncTransport(trust_env=False), trust_env=False) as http:
        load = asyncio.create_task(be_busy())
        for _ in range(_REQUESTS // 20):
            await asyncio.gather(*(ask(http) for _ in range(20)))
        is_over = True
        await load
    return failures


def test_a_connection_that_is_reset_as_it_is_opened_is_a_transport_error() -> None:
    """Callers try again after httpx.TransportError. Any other error would end a broker because its cluster was
    killed. On uvloop, which servers run on, some of these connections have no socket when httpx asks for it."""
    with _resetting_server() as url:
        failures = uvloop.run(_failures(url))
    assert len(failures) == _REQUESTS
    assert {type(one) for one in failures if not isinstance(one, httpx.TransportError)} == set()
    assert any(isinstance(one.__cause__, AttributeError) for one in failures), "the case did not come up"
