"""How long from publishing a record over HTTP until its result is committed and in a broker's hands.

The peer is a bare Structured Streaming query that does the same join over the same records, dropped as files, and
writes what it found as Parquet.
"""

from __future__ import annotations

import json
import random
import threading
import time
from typing import Any

import httpx

from tocsin.client import ClusterClient
from tocsin.lab.benchmarks.measuring import at_pace, bench_folder, machine, percentile, progress, subscribe_to_all
from tocsin.lab.benchmarks.peers import bare_spark
from tocsin.testing.network import running_cluster

_TYPES = 1_000
_SCHEMA = """
CREATE ACTIVE DATASET Reports (id STRING, etype INT, zone INT, sent_us BIGINT, message STRING, PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
CREATE CONTINUOUS CHANNEL OfTypeInZone (etype INT, zone INT) AS
  SELECT r.id, r.etype, r.zone, r.sent_us, r.message FROM Reports r
  WHERE is_new(r) AND r.etype = :etype AND r.zone = :zone;
"""


def run(
    seed: int = 0, subscriptions: int = 100_000, rate_per_s: int = 100, warm_s: float = 60.0, measure_s: float = 30.0
) -> dict[str, Any]:
    report: dict[str, Any] = {
        "benchmark": "latency",
        "machine": machine(),
        "subscriptions": subscriptions,
        "records_per_s": rate_per_s,
    }
    zones = subscriptions // _TYPES
    with bench_folder() as folder:
        progress.print("a bare Structured Streaming query")
        bare_ms = bare_spark("streaming", folder / "bare", subscriptions, _TYPES, rate_per_s, warm_s, measure_s)
        progress.print("Tocsin")
        with running_cluster(folder / "tocsin") as cluster, cluster.client() as client:
            client.wait_ready()
            client.sql(_SCHEMA)
            cursor = client.register_broker("bench")
            subscribe_to_all(client, "bench", "OfTypeInZone", subscriptions, _TYPES)
            total_s = warm_s + measure_s
            publisher = _Publisher(cluster.url, seed, zones, rate_per_s, total_s)
            publisher.start()
            before_s = cluster.cpu_s()
            begin_us = time.time_ns() // 1000
            received_ms, committed_ms = _receive(client, cursor, publisher, begin_us + int(warm_s * 1e6))
            report |= {
                "p50_ms": round(percentile(received_ms, 0.5)),
                "p99_ms": round(percentile(received_ms, 0.99)),
                "max_ms": round(max(received_ms)),
                "commit_begun_p50_ms": round(percentile(committed_ms, 0.5)),
                "results": len(received_ms),
                "bare_p50_ms": round(percentile(bare_ms, 0.5)),
                "bare_p99_ms": round(percentile(bare_ms, 0.99)),
                "ratio_to_bare_p50": round(percentile(received_ms, 0.5) / percentile(bare_ms, 0.5), 2),
                "ratio_to_bare_p99": round(percentile(received_ms, 0.99) / percentile(bare_ms, 0.99), 2),
                "cpu_cores": round((cluster.cpu_s() - before_s) / total_s, 2),
                "memory_mb": cluster.memory_mb(),
            }
    return report


class _Publisher(threading.Thread):
    """One record per request, at an even rate, over several connections."""

    def __init__(self, url: str, seed: int, zones: int, rate_per_s: int, seconds: float) -> None:
        super().__init__(name="publisher", daemon=True)
        self._url = url
        self._random = random.Random(seed)
        self._zones = zones
        self._rate_per_s = rate_per_s
        self._count = int(seconds * rate_per_s)
        self.published = 0

    def run(self) -> None:
        headers = {"Content-Type": "application/json"}
        with httpx.Client(base_url=self._url) as http:
            for number in at_pace(self._rate_per_s, self._count):
                record = {
                    "id": f"r{number}",
                    "etype": self._random.randrange(_TYPES),
                    "zone": self._random.randrange(self._zones),
                    "sent_us": time.time_ns() // 1000,
                    "message": "x" * 280,
                }
                response = http.post("/v1/feeds/reports/records", content=json.dumps(record), headers=headers)
                response.raise_for_status()
                self.published += 1


def _receive(
    client: ClusterClient, cursor: int, publisher: _Publisher, from_us: int
) -> tuple[list[float], list[float]]:
    """Milliseconds from sending to receiving, and to the beginning of the commit, of records sent after `from_us`."""
    received_ms: list[float] = []
    committed_ms: list[float] = []
    seen = 0
    while publisher.is_alive() or seen < publisher.published:
        results, cursor = client.pull("bench", cursor, wait_s=2)
        now_us = time.time_ns() // 1000
        seen += len(results)
        for result in results:
            sent_us = result["payload"]["sent_us"]
            if sent_us >= from_us:
                received_ms.append((now_us - sent_us) / 1000)
                committed_ms.append((result["committed_at_us"] - sent_us) / 1000)
    return received_ms, committed_ms
