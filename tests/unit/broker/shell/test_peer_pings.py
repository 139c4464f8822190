"""A broker pings its peers over HTTP: what it measures, and what it takes for no answer."""

from __future__ import annotations

import asyncio
import random

import pytest

from tocsin.broker.core.peers import Peers
from tocsin.broker.shell.metrics import BrokerMetrics
from tocsin.broker.shell.peer_pings import PeerPings
from tocsin.coordinates.coordinate import ORIGIN, Coordinate
from worlds.ping_server import PingServer, ping_server

pytestmark = pytest.mark.shell


class _Watched(Peers):
    """Says when so many pings have ended."""

    def __init__(self, chance: random.Random, count: int) -> None:
        super().__init__(chance)
        self._left = count
        self.done = asyncio.Event()

    def measured(self, peer: str, coordinate: Coordinate, round_trip_ms: float) -> None:
        super().measured(peer, coordinate, round_trip_ms)
        self._ended()

    def failed(self, peer: str) -> None:
        super().failed(peer)
        self._ended()

    def _ended(self) -> None:
        self._left -= 1
        if not self._left:
            self.done.set()


async def _measured(broker: PingServer, *, count: int = 1, token: str = "secret") -> Peers:
    """What a broker knows once it has tried so often."""
    peers = _Watched(random.Random(1), count)
    peers.learn({broker.name: broker.url}, "v1")
    task = asyncio.create_task(PeerPings(peers, token, BrokerMetrics(), every_s=0.01).run())
    done = asyncio.create_task(peers.done.wait())
    try:
        await asyncio.wait({task, done}, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        assert done.done(), task
    finally:
        for one in (task, done):
            one.cancel()
        await asyncio.gather(task, done, return_exceptions=True)
    return peers


async def test_a_peer_is_measured_on_a_connection_that_is_open_already() -> None:
    """What opening one takes is no part of a round trip; and the token is not sent."""
    async with ping_server("north", 30.0, takes_s=0.05) as north:
        peers = await _measured(north)
        measured = peers.unreported()
        assert 50 <= (measured.round_trips_ms["north"] or 0) < 5000
        assert measured.coordinate != ORIGIN
        assert north.connections == 1
        assert all("secret" not in shown for _, shown in north.asked)
        assert len({shown for _, shown in north.asked}) == len(north.asked), "each request has a number of its own"


@pytest.mark.parametrize(
    "fault",
    [
        {"status": "401 Unauthorized"},
        {"status": "302 Found"},
        {"status": "500 Internal Server Error"},
        {"token": "other"},
        {"body": b""},
        {"body": b"{}"},
        {"body": b'{"broker":"south","coordinate":{}}'},
        {"body": b'{"broker":"north","coordinate":{"error":-1}}'},
        {"body": b" " * 1_000_000},
    ],
)
async def test_whatever_else_comes_is_no_answer_and_changes_nothing(fault: dict[str, object]) -> None:
    async with ping_server("north", 30.0, **fault) as north:
        peers = await _measured(north)
        assert peers.unreported().round_trips_ms == {"north": None}
        assert peers.coordinate == ORIGIN


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://[", "gopher://north", "", "http://127.0.0.1:99999"])
async def test_an_address_that_leads_nowhere_ends_nothing(url: str) -> None:
    """The next peer is measured all the same."""
    peers = await _measured(PingServer("north", url=url), count=3)
    assert peers.unreported().round_trips_ms == {"north": None}
