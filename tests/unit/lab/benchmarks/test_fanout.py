"""A round of the fan-out benchmark, on a peer: everything published must have come, or there is no figure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.lab.benchmarks import fanout
from tocsin.lab.benchmarks.fanout import PeerContender, idle_bytes, measure
from tocsin.lab.benchmarks.fanout_peers import Nats, running_peer
from tocsin.lab.benchmarks.load_clients import LoadClients
from tocsin.lab.benchmarks.load_wire import Seat

pytestmark = pytest.mark.shell

_TOPICS = ["a", "b"]


@pytest.fixture
def contender(tmp_path: Path) -> Iterator[PeerContender]:
    if Nats.path() is None:
        pytest.skip("nats-server is not installed: apt-get install nats-server")
    with running_peer(Nats, tmp_path) as peer:
        yield PeerContender(peer, _TOPICS, [b"x" * 400, b"y" * 400])


def test_rounds_follow_one_another(contender: PeerContender) -> None:
    """Each round counts its own deliveries, at the pace that was asked for."""
    with LoadClients() as clients:
        clients.connect(contender.order([Seat(f"device-{number}", _TOPICS) for number in range(3)]))
        first = measure(contender, clients, 50, 10)
        second = measure(contender, clients, 50, 5)
    assert (first.deliveries, second.deliveries) == (60, 30)
    assert 20 < first.executions_per_s <= 51
    assert contender.published_bytes() == 15 * 800


def test_a_missing_delivery_fails_the_benchmark(contender: PeerContender, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that delivers less than was published gets no figure at all."""
    monkeypatch.setattr(fanout, "_DELIVERY_TIMEOUT_S", 0.2)
    with LoadClients() as clients:
        clients.connect(contender.order([Seat("complete", _TOPICS), Seat("incomplete", _TOPICS[:1])]))
        with pytest.raises(RuntimeError, match="each subscriber should have 4 messages of 1600 bytes"):
            measure(contender, clients, 50, 2)


def test_idle_connections_take_memory(contender: PeerContender, monkeypatch: pytest.MonkeyPatch) -> None:
    """What connections add to the server's memory is shared out among them."""
    monkeypatch.setattr(fanout, "_SETTLE_S", 0.5)
    assert 1_000 < idle_bytes(contender.server, contender.order([]), 500) < 200_000
