"""How long from publishing a record over HTTP until it is at the sockets of those subscribed, through three brokers.

The peer is the cluster's own part: a broker that only pulls, in the same run, as the latency benchmark has it. The
difference is what the brokers add.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from tocsin.lab.benchmarks.load_clients import TOCSIN, Connect, LoadClients
from tocsin.lab.benchmarks.load_wire import Kept, Seat
from tocsin.lab.benchmarks.measuring import at_pace, bench_folder, machine, percentile, progress
from tocsin.lab.benchmarks.network import place, running_benchmark
from tocsin.runtime.files import raise_open_files
from tocsin.testing.network import ClusterProcess, RunningNetwork

_SCHEMA = """
CREATE ACTIVE DATASET Reports (id STRING, number BIGINT, topic STRING, sent_us BIGINT, message STRING,
                               PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
CREATE CONTINUOUS CHANNEL OnTopic (topic STRING) AS
  SELECT r.id, r.number, r.topic, r.sent_us, r.message FROM Reports r WHERE is_new(r) AND r.topic = :topic;
"""
_CHANNEL = "OnTopic"
_PULLER = "bench-puller"
#: After the last record was sent.
_DELIVERY_TIMEOUT_S = 60.0
#: Time for what would be delivered twice to come.
_SETTLE_S = 2.0


def run(
    seed: int = 0,
    brokers: int = 3,
    subscribers: int = 1000,
    topics: int = 100,
    rate_per_s: int = 100,
    warm_s: float = 60.0,
    measure_s: float = 30.0,
) -> dict[str, Any]:
    report: dict[str, Any] = {
        "benchmark": "end-to-end",
        "machine": machine(),
        "brokers": brokers,
        "subscribers": subscribers,
        "topics": topics,
        "records_per_s": rate_per_s,
    }
    raise_open_files()
    chance = random.Random(seed)
    topic_of = [f"topic{chance.randrange(topics):03d}" for _ in range(int((warm_s + measure_s) * rate_per_s))]
    topic_held = {f"load-{number}": f"topic{number % topics:03d}" for number in range(subscribers)}
    with bench_folder() as folder, LoadClients() as clients:
        progress.print(f"a cluster, a coordinator and {brokers} brokers")
        with running_benchmark(folder, brokers, _SCHEMA) as (network, token):
            progress.print(f"{subscribers} subscribers")
            seats = _connect(network, token, clients, topic_held)
            puller = _Puller(network.cluster, sorted(set(topic_of)), len(topic_of))
            puller.start()
            progress.print(f"{rate_per_s} records/s for {warm_s:g} s to warm up and {measure_s:g} s that count")
            before_s = {name: broker.cpu_s() for name, broker in network.brokers.items()}
            cluster_before_s = network.cluster.cpu_s()
            begin_us = time.time_ns() // 1000
            _publish(network.cluster, topic_of, rate_per_s)
            published_s = time.time_ns() / 1e9 - begin_us / 1e6
            holders = Counter(topic_held.values())
            counted = clients.wait(sum(holders[topic] for topic in topic_of), _DELIVERY_TIMEOUT_S)
            elapsed_s = time.time_ns() / 1e9 - begin_us / 1e6
            used_s = [broker.cpu_s() - before_s[name] for name, broker in network.brokers.items()]
            cluster_used_s = network.cluster.cpu_s() - cluster_before_s
            time.sleep(_SETTLE_S)
            puller.join(_DELIVERY_TIMEOUT_S)
            outcome = account(topic_of, topic_held, clients.kept(), begin_us + int(warm_s * 1e6))
            puller_ms = puller.latencies_ms(begin_us + int(warm_s * 1e6))
            report |= {
                "records_per_s_reached": round(len(topic_of) / published_s, 1),
                "subscribers_by_broker": seats,
                "p50_ms": round(percentile(outcome.latencies_ms, 0.5)),
                "p99_ms": round(percentile(outcome.latencies_ms, 0.99)),
                "max_ms": round(max(outcome.latencies_ms)),
                "deliveries": len(outcome.latencies_ms),
                "lost": outcome.lost,
                "doubled": outcome.doubled,
                "misdirected": outcome.misdirected,
                "puller_p50_ms": round(percentile(puller_ms, 0.5)),
                "puller_p99_ms": round(percentile(puller_ms, 0.99)),
                "ratio_to_puller_p50": round(percentile(outcome.latencies_ms, 0.5) / percentile(puller_ms, 0.5), 2),
                "cpu_cores": round(cluster_used_s / elapsed_s, 2),
                "broker_cpu_cores": [round(one / elapsed_s, 3) for one in used_s],
            }
    if outcome.lost or outcome.doubled or outcome.misdirected or counted.failures:
        raise RuntimeError(
            f"not every record was delivered once to each of its subscribers: {report} {counted.failures}"
        )
    return report


@dataclass(frozen=True, slots=True)
class Outcome:
    #: From sending to receiving, of the records that count.
    latencies_ms: list[float]
    lost: int
    doubled: int
    misdirected: int


def account(topic_of: Sequence[str], topic_held: Mapping[str, str], kept: Iterable[Kept], from_us: int) -> Outcome:
    """What became of every record: `topic_of` says by number what was published, `topic_held` who wanted what.

    >>> account(["a", "b"], {"one": "a", "two": "a"}, [Kept("one", 0, 1000, 3000), Kept("one", 0, 1000, 4000)], 0)
    Outcome(latencies_ms=[2.0, 3.0], lost=1, doubled=1, misdirected=0)
    """
    latencies_ms = []
    times: Counter[tuple[str, int]] = Counter()
    misdirected = 0
    for one in kept:
        if topic_held.get(one.device) != topic_of[one.number]:
            misdirected += 1
            continue
        times[one.device, one.number] += 1
        if one.sent_us >= from_us:
            latencies_ms.append((one.received_us - one.sent_us) / 1000)
    holders = Counter(topic_held.values())
    expected = sum(holders[topic] for topic in topic_of)
    return Outcome(latencies_ms, expected - len(times), times.total() - len(times), misdirected)


def _connect(
    network: RunningNetwork, token: str, clients: LoadClients, topic_held: Mapping[str, str]
) -> dict[str, int]:
    by_broker = place(network, token, list(topic_held))
    for name, devices in by_broker.items():
        server = network.brokers[name]
        seats = [Seat(device, [topic_held[device]]) for device in devices]
        clients.connect(Connect(TOCSIN, server.host, server.port, seats, _CHANNEL, token, keep=True))
    return {name: len(devices) for name, devices in by_broker.items()}


def _publish(cluster: ClusterProcess, topic_of: Sequence[str], rate_per_s: int) -> None:
    """One record per request, at an even rate."""
    headers = {"Content-Type": "application/json"}
    with httpx.Client(base_url=cluster.url) as http:
        for number in at_pace(rate_per_s, len(topic_of)):
            record = {
                "id": f"r{number}",
                "number": number,
                "topic": topic_of[number],
                "sent_us": time.time_ns() // 1000,
                "message": "x" * 280,
            }
            response = http.post("/v1/feeds/reports/records", content=json.dumps(record), headers=headers)
            response.raise_for_status()


class _Puller(threading.Thread):
    """A broker that holds every topic, has no subscribers and notes when each record reached it."""

    def __init__(self, cluster: ClusterProcess, topics: Sequence[str], records: int) -> None:
        super().__init__(name="puller", daemon=True)
        self._client = cluster.client()
        self._cursor = self._client.register_broker(_PULLER)
        self._client.subscribe(_PULLER, [{"channel": _CHANNEL, "parameters": {"topic": topic}} for topic in topics])
        self._records = records
        self._times_us: list[tuple[int, int]] = []

    def run(self) -> None:
        with self._client as client:
            while len(self._times_us) < self._records:
                results, self._cursor = client.pull(_PULLER, self._cursor, wait_s=2)
                now_us = time.time_ns() // 1000
                self._times_us += [(result["payload"]["sent_us"], now_us) for result in results]

    def latencies_ms(self, from_us: int) -> list[float]:
        return [(received_us - sent_us) / 1000 for sent_us, received_us in self._times_us if sent_us >= from_us]
