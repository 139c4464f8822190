"""A whole system under a steady load: cluster, coordinator, brokers, a publisher, and a crowd of subscribers."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from own_modules import knowing_tests
from scorecard.crowd import Connect, Crowd
from tocsin.lab.benchmarks.load_wire import Seat
from tocsin.lab.benchmarks.network import place, running_benchmark
from tocsin.runtime.files import raise_open_files
from tocsin.testing.network import RunningNetwork

SCHEMA = """
CREATE ACTIVE DATASET Reports (id STRING, number BIGINT, topic STRING, sent_us BIGINT, message STRING,
                               PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
CREATE CONTINUOUS CHANNEL OnTopic (topic STRING) AS
  SELECT r.id, r.number, r.topic, r.sent_us, r.message FROM Reports r WHERE is_new(r) AND r.topic = :topic;
"""
CHANNEL = "OnTopic"
_MESSAGE = "x" * 200


class Publisher(threading.Thread):
    """Publishes records at an even rate, of each topic in turn, until it is stopped. `last` is by topic."""

    def __init__(self, url: str, topics: int, rate_per_s: float) -> None:
        super().__init__(name="publisher", daemon=True)
        self._http = httpx.Client(base_url=url, timeout=60)
        self._topics = [f"topic{number:03d}" for number in range(topics)]
        self._rate_per_s = rate_per_s
        self._is_over = threading.Event()
        self.last: Counter[str] = Counter()
        self.failure = ""

    def run(self) -> None:
        begin_s, count = time.monotonic(), 0
        while not self._is_over.wait(max(0.0, begin_s + count / self._rate_per_s - time.monotonic())):
            topic = self._topics[count % len(self._topics)]
            number = count // len(self._topics)
            record = {"id": f"{topic}-{number}", "number": number, "topic": topic, "message": _MESSAGE}
            record["sent_us"] = time.time_ns() // 1000
            answer = self._http.post("/v1/feeds/reports/records", json=record)
            if not answer.is_success:
                self.failure = f"publishing was refused: {answer.status_code} {answer.text[:200]}"
                return
            self.last[topic] = number
            count += 1

    def stop(self) -> None:
        self._is_over.set()
        self.join(60)
        self._http.close()


@dataclass(slots=True)
class Loaded:
    network: RunningNetwork
    crowd: Crowd
    publisher: Publisher

    def memory_mb(self) -> dict[str, int]:
        """Resident memory of each process, its children included."""
        return {name: server.memory_mb() for name, server in self.network.servers.items()}

    def broker_memory_bytes(self) -> int:
        return sum(broker.memory_bytes() for broker in self.network.brokers.values())


@contextmanager
def loaded(subscribers: int, deliveries_per_s: int, brokers: int = 2, topics: int = 100) -> Iterator[Loaded]:
    """Everybody is subscribed, and records come."""
    raise_open_files()
    os.environ.update(knowing_tests(os.environ))  # For the crowd, which is a module of the tests.
    topics = min(topics, subscribers)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-scorecard-")))
        crowd = stack.enter_context(Crowd())
        network, token = stack.enter_context(running_benchmark(folder, brokers, SCHEMA))
        seats = {f"load-{number}": f"topic{number % topics:03d}" for number in range(subscribers)}
        for name, devices in place(network, token, list(seats)).items():
            server = network.brokers[name]
            order = Connect(
                server.host,
                server.port,
                CHANNEL,
                token,
                [Seat(device, [seats[device]]) for device in devices],
            )
            crowd.do(order)
        publisher = Publisher(network.cluster.url, topics, deliveries_per_s * topics / subscribers)
        publisher.start()
        try:
            yield Loaded(network, crowd, publisher)
        finally:
            publisher.stop()
