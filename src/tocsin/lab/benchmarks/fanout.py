"""How many notifications a broker delivers for each second of CPU it uses, and what an idle connection costs it.

The peers are nats-server and Mosquitto: the same 400 bytes, to as many subscribers, at the same pace. The three take
turns, so that what disturbs one disturbs all. Each subscriber's messages and bytes must be just those published.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from msgspec.structs import replace

from tocsin.lab.benchmarks.fanout_peers import PEERS, Mosquitto, Nats, Peer, running_peer
from tocsin.lab.benchmarks.load_clients import NATS, TOCSIN, Connect, LoadClients
from tocsin.lab.benchmarks.load_wire import Seat
from tocsin.lab.benchmarks.measuring import at_pace, bench_folder, machine, progress
from tocsin.lab.benchmarks.network import BROKER_SETTINGS, place, running_benchmark
from tocsin.model.position import Position, commit_of
from tocsin.protocol.messages import decode_result, notification_of
from tocsin.runtime.files import raise_open_files
from tocsin.runtime.processes import ServerProcess
from tocsin.testing.network import RunningNetwork

MESSAGE_BYTES = 400
_SCHEMA = """
CREATE ACTIVE DATASET Reports (id STRING, topic STRING, message STRING, PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
CREATE CONTINUOUS CHANNEL Fan (topic STRING) AS
  SELECT r.id, r.topic, r.message FROM Reports r WHERE is_new(r) AND r.topic = :topic;
"""
_CHANNEL = "Fan"
#: Holds the same subscriptions at the cluster and pulls when nothing is measured, to know what was to be delivered.
_CHECKER = "bench-checker"
#: What sequences have after the first 24 commits, which are over with the warm-up, and until the 239th.
_SEQUENCE_DIGITS = 9
_DELIVERY_TIMEOUT_S = 60.0
#: Connections that come and go before memory is looked at, so that what is set up once is not counted.
_FIRST_IDLE = 200
_SETTLE_S = 10.0
#: What the client processes and servers need beside connections.
_FILES_BESIDE = 200


def run(
    subscribers: int = 1000,
    subscriptions: int = 20,
    executions_per_s: float = 3.0,
    rounds: int = 3,
    round_s: float = 10.0,
    warm_s: float = 15.0,
    idle_connections: int = 10_000,
) -> dict[str, Any]:
    report: dict[str, Any] = {
        "benchmark": "fanout",
        "machine": machine(),
        "subscribers": subscribers,
        "subscriptions": subscriptions,
        "executions_per_s": executions_per_s,
    }
    idle_connections = min(idle_connections, raise_open_files() - _FIRST_IDLE - _FILES_BESIDE)
    topics = [f"topic{number:02d}" for number in range(subscriptions)]
    seats = [Seat(f"load-{number}", topics) for number in range(subscribers)]
    with bench_folder() as folder:
        progress.print("a cluster, a coordinator and a broker")
        with running_benchmark(folder, 1, _SCHEMA) as (network, token):
            with ExitStack() as stack:
                tocsin = TocsinContender(network, token, topics)
                contenders: list[Contender] = [tocsin, *_peers(stack, folder, topics, tocsin.notifications)]
                measured = _take_turns(contenders, seats, executions_per_s, rounds, round_s, warm_s)
            report |= summary(measured) | tocsin.figures()
            if idle_connections > 0:
                progress.print(f"{idle_connections} idle connections")
                report |= _idle(network, token, folder, idle_connections)
    return report


def _peers(stack: ExitStack, folder: Path, topics: Sequence[str], payloads: Sequence[bytes]) -> Iterator[Contender]:
    for kind in PEERS:
        if kind.path():
            yield PeerContender(stack.enter_context(running_peer(kind, folder)), topics, payloads)
        else:
            progress.print(f"{kind.program} is not installed: apt-get install {kind.program}; going on without it")


def _take_turns(
    contenders: Sequence[Contender],
    seats: list[Seat],
    executions_per_s: float,
    rounds: int,
    round_s: float,
    warm_s: float,
) -> dict[str, list[Round]]:
    measured: dict[str, list[Round]] = {contender.kind: [] for contender in contenders}
    executions = max(1, round(executions_per_s * round_s))
    with ExitStack() as stack:
        clients = [stack.enter_context(LoadClients()) for _ in contenders]
        for contender, load in zip(contenders, clients, strict=True):
            progress.print(f"{len(seats)} subscribers of {contender.kind}, and a few messages to warm up")
            load.connect(contender.order(seats))
            measure(contender, load, executions_per_s, max(1, round(executions_per_s * warm_s)))
        for number in range(1, rounds + 1):
            for contender, load in zip(contenders, clients, strict=True):
                one = measure(contender, load, executions_per_s, executions)
                progress.print(f"round {number}, {contender.kind}: {one.deliveries_per_cpu_s:,.0f} deliveries/CPU-s")
                measured[contender.kind].append(one)
    return measured


def measure(contender: Contender, clients: LoadClients, executions_per_s: float, executions: int) -> Round:
    """Deliveries of so many executions, and the CPU they took. Raises RuntimeError if one is missing or too many."""
    connections = clients.wait(0, 0).connections
    before_s = contender.server.cpu_s()
    begun_s: list[float] = []
    for _ in at_pace(executions_per_s, executions):
        begun_s.append(time.perf_counter())
        contender.execute()
    messages = contender.executed * len(contender.topics)
    counted = clients.wait(messages * connections, _DELIVERY_TIMEOUT_S)
    cpu_s = contender.server.cpu_s() - before_s
    size_bytes = contender.published_bytes()
    if not counted.each_got(messages, size_bytes):
        raise RuntimeError(
            f"{contender.kind}: each subscriber should have {messages} messages of {size_bytes} bytes in all; {counted}"
        )
    pace_per_s = (executions - 1) / (begun_s[-1] - begun_s[0]) if executions > 1 else executions_per_s
    return Round(executions * len(contender.topics) * connections, cpu_s, pace_per_s)


@dataclass(frozen=True, slots=True)
class Round:
    deliveries: int
    cpu_s: float
    #: The pace that was kept.
    executions_per_s: float

    @property
    def deliveries_per_cpu_s(self) -> float:
        # The system counts CPU in hundredths of a second.
        return self.deliveries / max(self.cpu_s, 0.01)


def summary(measured: dict[str, list[Round]]) -> dict[str, Any]:
    """The figures of all rounds; null where there was no peer.

    >>> summary({"tocsin": [Round(300, 1.0, 2.0)], "nats": [Round(200, 1.0, 2.0)]})["ratio_to_nats"]
    1.5
    """
    medians = {name: median([one.deliveries_per_cpu_s for one in rounds]) for name, rounds in measured.items()}
    ours, nats, mosquitto = medians[TOCSIN], medians.get(Nats.kind), medians.get(Mosquitto.kind)
    return {
        "deliveries_per_cpu_s": round(ours),
        "nats_deliveries_per_cpu_s": nats and round(nats),
        "mosquitto_deliveries_per_cpu_s": mosquitto and round(mosquitto),
        "ratio_to_nats": nats and round(ours / nats, 2),
        "ratio_to_mosquitto": mosquitto and round(ours / mosquitto, 2),
        "by_round": {name: [round(one.deliveries_per_cpu_s) for one in rounds] for name, rounds in measured.items()},
        "executions_per_s_reached": {
            name: round(median([one.executions_per_s for one in rounds]), 2) for name, rounds in measured.items()
        },
    }


class Contender(ABC):
    """A server that everyone is subscribed at, and a way to have it deliver a message on every topic."""

    kind: str
    server: ServerProcess
    topics: Sequence[str]
    #: Executions so far.
    executed: int = 0

    @abstractmethod
    def order(self, seats: list[Seat]) -> Connect:
        """How subscribers connect to it."""

    @abstractmethod
    def execute(self) -> None:
        """Have one message on every topic on its way to everyone."""

    @abstractmethod
    def published_bytes(self) -> int:
        """The size of all messages that each subscriber is to have been sent by now."""


class PeerContender(Contender):
    def __init__(self, peer: Peer, topics: Sequence[str], payloads: Sequence[bytes]) -> None:
        self.kind = peer.kind
        self.server = peer.server
        self.topics = topics
        self._peer = peer
        self._payloads = payloads

    def order(self, seats: list[Seat]) -> Connect:
        return Connect(self.kind, self.server.host, self.server.port, seats)

    def execute(self) -> None:
        self._peer.publish(self.topics, self._payloads)
        self.executed += 1

    def published_bytes(self) -> int:
        return self.executed * sum(map(len, self._payloads))


class TocsinContender(Contender):
    """Publishes to the cluster. What the broker is to deliver is known from pulling the same from the cluster."""

    kind = TOCSIN

    def __init__(self, network: RunningNetwork, token: str, topics: Sequence[str]) -> None:
        self.server = next(iter(network.brokers.values()))
        self.topics = topics
        self._network = network
        self._token = token
        self._http = httpx.Client(base_url=network.cluster.url, timeout=_DELIVERY_TIMEOUT_S)
        self._padding = dict.fromkeys(topics, "")
        self._runs: set[int] = set()
        self._sizes_bytes: list[int] = []
        with network.cluster.client() as client:
            self._cursor = client.register_broker(_CHECKER)
            client.subscribe(_CHECKER, [{"channel": _CHANNEL, "parameters": {"topic": topic}} for topic in topics])
        self._publish()
        for notification in self._pull(len(topics)):
            sequence = str(_sequence_in(notification))
            self._padding[json.loads(notification)["payload"]["topic"]] = "x" * (
                MESSAGE_BYTES - len(notification) - _SEQUENCE_DIGITS + len(sequence)
            )
        self._publish()
        #: What the peers are to deliver.
        self.notifications = [one.ljust(MESSAGE_BYTES)[:MESSAGE_BYTES] for one in self._pull(len(topics))]

    def order(self, seats: list[Seat]) -> Connect:
        devices = [seat.device for seat in seats]
        name = next(iter(place(self._network, self._token, devices[:1])))
        server = self._network.brokers[name]
        return Connect(TOCSIN, server.host, server.port, seats, _CHANNEL, self._token)

    def execute(self) -> None:
        self._publish()
        self.executed += 1

    def published_bytes(self) -> int:
        missing = self.executed * len(self.topics) - len(self._sizes_bytes)
        for notification in self._pull(missing):
            self._sizes_bytes.append(len(notification))
            self._runs.add(commit_of(_sequence_in(notification)))
        return sum(self._sizes_bytes)

    def figures(self) -> dict[str, Any]:
        """How well the measurement is what it is meant to be: messages of one size, one run for each execution."""
        return {
            "message_bytes": median(self._sizes_bytes),
            "executions": self.executed,
            "runs": len(self._runs),
        }

    def _publish(self) -> None:
        records = [
            {"id": f"{self.executed:06d}", "topic": topic, "message": self._padding[topic]} for topic in self.topics
        ]
        body = b"\n".join(json.dumps(record).encode() for record in records)
        headers = {"Content-Type": "application/x-ndjson"}
        # Committed before the next are published, so that each execution is a run of the channel.
        path = "/v1/feeds/reports/records?wait=commit"
        self._http.post(path, content=body, headers=headers).raise_for_status()

    def _pull(self, count: int) -> list[bytes]:
        """The next `count` notifications. Raises RuntimeError if there are more or fewer."""
        lines: list[bytes] = []
        deadline = time.monotonic() + _DELIVERY_TIMEOUT_S
        while len(lines) < count and time.monotonic() < deadline:
            params = {"after": self._cursor, "wait_s": 2}
            response = self._http.get(f"/v1/brokers/{_CHECKER}/results", params=params)
            response.raise_for_status()
            self._cursor = int(response.headers["Tocsin-Cursor"])
            lines += response.content.splitlines()
        if len(lines) != count:
            raise RuntimeError(f"the cluster has {len(lines)} results where {count} were published")
        return [notification_of(line) for line in lines]


def _sequence_in(notification: bytes) -> int:
    return Position.parse(decode_result(notification).position).sequence


def _idle(network: RunningNetwork, token: str, folder: Path, connections: int) -> dict[str, Any]:
    """What a connection that has said hello, and no more, adds to the server's memory."""
    with network.running_broker("bench-idle", BROKER_SETTINGS) as server:
        order = Connect(TOCSIN, server.host, server.port, [], token=token)
        ours = idle_bytes(server, order, connections)
    nats = None
    if Nats.path():
        with running_peer(Nats, folder / "idle") as peer:
            order = Connect(NATS, peer.server.host, peer.server.port, [])
            nats = idle_bytes(peer.server, order, connections)
    return {
        "idle_connections": connections,
        "bytes_per_idle_connection": round(ours),
        "nats_bytes_per_idle_connection": nats and round(nats),
    }


def idle_bytes(server: ServerProcess, order: Connect, connections: int) -> float:
    with LoadClients() as clients:
        clients.connect(replace(order, seats=[Seat(f"first-{number}") for number in range(_FIRST_IDLE)]))
        time.sleep(_SETTLE_S)
        before = server.memory_bytes()
        clients.connect(replace(order, seats=[Seat(f"idle-{number}") for number in range(connections)]))
        time.sleep(_SETTLE_S)
        grown = server.memory_bytes() - before
        if failures := clients.wait(0, 0).failures:
            raise RuntimeError(f"idle connections did not stay: {'; '.join(failures)}")
        return grown / connections
