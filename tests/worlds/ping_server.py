"""A broker that answers pings over real HTTP, and can be made to misbehave."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from tocsin.coordinates.coordinate import DIMENSIONS, Coordinate
from tocsin.errors import Unauthorised
from tocsin.protocol import pings


@dataclass
class PingServer:
    """`body` replaces the answer, `status` its status; `takes_s` is how long each answer takes."""

    name: str
    x_ms: float = 0.0
    token: str = "secret"
    peers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    status: str = "200 OK"
    takes_s: float = 0.0
    url: str = ""
    connections: int = 0
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    #: The first line and the header Authorization of each request.
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                lines = head.split("\r\n")
                shown = next(line for line in lines if line.lower().startswith("authorization:")).partition(": ")[2]
                self.asked.append((lines[0], shown))
                await asyncio.sleep(self.takes_s)
                writer.write(self._answered(lines[0], shown))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answered(self, request: str, shown: str) -> bytes:
        coordinate = Coordinate((self.x_ms, *[0.0] * (DIMENSIONS - 1)), 1.0, 0.0, 0.1)
        peers = self.peers if "peers=true" in request else {}
        body = msgspec.json.encode(pings.PingAnswer(self.name, coordinate, peers)) if self.body is None else self.body
        proof = ""
        with contextlib.suppress(Unauthorised):  # Subscribers, and brokers with another token, get none.
            proof = pings.proof_of(self.token, self.name, pings.nonce_of(shown, self.token, self.name), body)
        head = f"HTTP/1.1 {self.status}\r\nContent-Length: {len(body)}\r\n{pings.PROOF_HEADER}: {proof}\r\n\r\n"
        return head.encode() + body


@asynccontextmanager
async def ping_server(name: str, x_ms: float = 0.0, **options: object) -> AsyncIterator[PingServer]:
    broker = PingServer(name, x_ms, **options)  # type: ignore[arg-type]
    server = await asyncio.start_server(broker.answer, "127.0.0.1", 0)
    broker.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield broker
        for writer in broker.writers:
            writer.close()
        await asyncio.sleep(0)  # Those that answer them end.
