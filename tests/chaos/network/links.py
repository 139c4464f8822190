"""A connection between two processes that can be cut: a relay on loopback, in a thread of its own.

Each link has a port that one side is given instead of the other's own. While a link is *frozen*, nothing passes in
either direction and nobody is told, as when a cable is pulled; while it is *cut*, connections are reset and refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from enum import StrEnum

from tocsin.runtime.ports import free_port

_READ_BYTES = 1 << 16


class LinkState(StrEnum):
    OPEN = "open"
    FROZEN = "frozen"
    CUT = "cut"


class Link:
    """One relay. `set` may be called from any thread, and has taken effect when it returns."""

    def __init__(self, relays: Relays, port: int) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._relays = relays
        self._target = port
        self._state = LinkState.OPEN
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._writers: set[asyncio.StreamWriter] = set()

    def set(self, state: LinkState) -> None:
        self._relays.change(lambda: self._set(state))

    def _set(self, state: LinkState) -> None:
        self._state = state
        if state is LinkState.OPEN:
            self._is_open.set()
        else:
            self._is_open.clear()
        if state is LinkState.CUT:
            for writer in self._writers:
                _reset(writer)

    async def listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._state is LinkState.CUT:
            _reset(writer)
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _reset(writer)
            return
        both = {writer, far_writer}
        self._writers |= both
        try:
            await asyncio.gather(self._pass_on(reader, far_writer), self._pass_on(far_reader, writer))
        finally:
            self._writers -= both
            for one in both:
                _reset(one)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_READ_BYTES):
                await self._is_open.wait()
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection without a goodbye."""
    linger_not_at_all = struct.pack("ii", 1, 0)
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not_at_all)
    writer.transport.abort()


class Relays:
    """The thread that all links of a run share."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays", daemon=True)
        self._thread.start()
        self._servers: list[asyncio.Server] = []

    def link_to(self, port: int) -> Link:
        async def make() -> Link:
            link = Link(self, port)
            self._servers.append(await link.listen())
            return link

        return asyncio.run_coroutine_threadsafe(make(), self._loop).result(10)

    def change(self, change: Callable[[], None]) -> None:
        """Do it in the thread; returns when it is done."""

        async def do() -> None:
            change()

        asyncio.run_coroutine_threadsafe(do(), self._loop).result(10)

    def close(self) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for one in others:
                one.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
