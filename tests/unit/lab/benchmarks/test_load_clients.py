"""A process of subscribers, against real servers: a stock WebSocket server, and the peers where they are installed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.server import ServerConnection, serve

from tocsin.lab.benchmarks.fanout_peers import PEERS, Peer, running_peer
from tocsin.lab.benchmarks.load_clients import TOCSIN, Connect, LoadClients
from tocsin.lab.benchmarks.load_wire import Seat

pytestmark = pytest.mark.shell


@pytest.fixture
def clients() -> Iterator[LoadClients]:
    with LoadClients() as process:
        yield process


async def _broker(connection: ServerConnection) -> None:
    """Welcomes, confirms, and sends two notifications per subscription."""
    hello = json.loads(await connection.recv())
    assert hello["token"] == "secret"
    device = hello["device"]
    await connection.send(json.dumps({"type": "welcome", "subscriber": f"u/{device}", "device": device, "broker": "b"}))
    for subscribe in hello["subscriptions"]:
        answer = {"type": "subscribed", "subscription": 1, "position": "1-0"}
        await connection.send(json.dumps(subscribe | answer, separators=(",", ":")))
    for number, _ in enumerate(2 * hello["subscriptions"]):
        payload = {"number": number, "sent_us": 1}
        await connection.send(json.dumps({"type": "notification", "payload": payload}, separators=(",", ":")))
    await connection.wait_closed()


async def test_subscribers_speak_websocket_as_a_stock_server_does(clients: LoadClients) -> None:
    """They upgrade, say hello with their token and device, subscribe, and count what comes."""
    async with serve(_broker, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        seats = [Seat(f"device-{number}", ["a", "b"]) for number in range(3)]
        order = Connect(TOCSIN, "127.0.0.1", port, seats, "Fan", "secret", keep=True)
        connected = await asyncio.to_thread(clients.connect, order)
        counted = await asyncio.to_thread(clients.wait, 12, 10)
        kept = await asyncio.to_thread(clients.kept)
    assert connected.connections == 3
    size = len('{"type":"notification","payload":{"number":0,"sent_us":1}}')
    assert counted.each_got(4, 4 * size)
    assert not counted.each_got(4, 4 * size + 1)
    assert sorted((one.device, one.number) for one in kept) == [
        (f"device-{seat}", number) for seat in range(3) for number in range(4)
    ]


async def test_refused_subscribers_are_told_of(clients: LoadClients) -> None:
    """Who can't be connected is an error that says why, rather than a count that is too low."""

    async def refuse(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.close(4101, "no such user")

    async with serve(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RuntimeError, match="4101: no such user"):
            await asyncio.to_thread(clients.connect, Connect(TOCSIN, "127.0.0.1", port, [Seat("one")], "Fan"))


@pytest.mark.parametrize("kind", PEERS)
def test_peers_deliver_to_everyone(kind: type[Peer], clients: LoadClients, tmp_path: Path) -> None:
    """What is published to a peer reaches each of its subscribers once, byte by byte."""
    if kind.path() is None:
        pytest.skip(f"{kind.program} is not installed: apt-get install {kind.program}")
    topics = ["a", "b"]
    with running_peer(kind, tmp_path) as peer:
        seats = [Seat(f"device-{number}", topics) for number in range(5)]
        clients.connect(Connect(kind.kind, peer.server.host, peer.server.port, seats))
        for _ in range(3):
            peer.publish(topics, [b"x" * 400, b"y" * 300])
        counted = clients.wait(30, 10)
        assert peer.server.cpu_s() >= 0
        assert peer.server.memory_bytes() > 1 << 20
    assert counted.each_got(6, 3 * 700)
