"""How many records a second come in over HTTP, acknowledged and committed to the table.

The publisher is a process of its own and goes on as fast as it is let. The peer is a bare Spark job that loads the
same records from a file on disk.
"""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from tocsin.client import ClusterClient
from tocsin.lab.benchmarks.measuring import bench_folder, machine, progress, subscribe_to_all
from tocsin.lab.benchmarks.peers import bare_spark
from tocsin.testing.network import ClusterProcess, running_cluster

_TYPES = 1_000
_ZONES = 100
_RECORDS_PER_REQUEST = 500
_CONNECTIONS = 4
_SCHEMA = """
CREATE ACTIVE DATASET Reports (id STRING, etype INT, zone INT, x DOUBLE, y DOUBLE, severity INT, message STRING,
                               PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
"""
_CHANNEL = """
CREATE CONTINUOUS CHANNEL OfTypeInZone (etype INT, zone INT) AS
  SELECT r.* FROM Reports r WHERE is_new(r) AND r.etype = :etype AND r.zone = :zone;
"""
_SPARK_SCHEMA = "id STRING, etype INT, zone INT, x DOUBLE, y DOUBLE, severity INT, message STRING"


def run(seed: int = 0, subscriptions: int = 100_000, warm_s: float = 30.0, measure_s: float = 20.0) -> dict[str, Any]:
    report: dict[str, Any] = {"benchmark": "ingest", "machine": machine(), "record_bytes": len(_record(0, seed)) + 1}
    with bench_folder() as root:
        progress.print("a bare Spark job, NDJSON on disk to Parquet")
        ndjson = root / "records.ndjson"
        ndjson.write_bytes(b"\n".join(_record(number, seed) for number in range(400_000)))
        bare = bare_spark("load", root / "bare", str(ndjson), _SPARK_SCHEMA, 4)
        with running_cluster(root / "tocsin") as cluster, cluster.client() as client:
            client.wait_ready()
            client.sql(_SCHEMA)
            progress.print("Tocsin, over HTTP")
            _flood(cluster, client, warm_s, seed)
            alone = _flood(cluster, client, measure_s, seed)
            client.sql(_CHANNEL)
            client.register_broker("bench")
            subscribe_to_all(client, "bench", "OfTypeInZone", subscriptions, _TYPES)
            progress.print(f"Tocsin, over HTTP, with a continuous channel of {subscriptions:,} subscriptions")
            _flood(cluster, client, warm_s / 2, seed)
            joined = _flood(cluster, client, measure_s, seed)
            report |= {
                "records_per_s": alone["records_per_s"],
                "records_per_s_with_channel": joined["records_per_s"],
                "bare_spark_records_per_s": round(bare[-1]),
                "bare_spark_cold_records_per_s": round(bare[0]),
                "ratio_to_bare_spark": round(alone["records_per_s"] / bare[-1], 2),
                "alone": alone,
                "with_channel": joined,
                "memory_mb": cluster.memory_mb(),
            }
    return report


def _flood(cluster: ClusterProcess, client: ClusterClient, seconds: float, seed: int) -> dict[str, Any]:
    """Publish as fast as the cluster lets us; the clock stops when the last record is in the table."""
    before = client.status()
    before_cpu_s = cluster.cpu_s()
    begin = time.perf_counter()
    command = [sys.executable, "-m", __name__, cluster.url, str(seconds), str(seed)]
    publisher = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    # One more record, committed, means that all before it are.
    client.publish("reports", _record(0, seed), wait_commit=True)
    results_due = client.status()
    elapsed_s = time.perf_counter() - begin
    done = {
        "records_per_s": round(publisher["records"] / elapsed_s),
        "records": publisher["records"],
        "requests_refused": publisher["overloaded"],
        "ack_p50_ms": publisher["ack_p50_ms"],
        "ack_p99_ms": publisher["ack_p99_ms"],
        "seconds": round(elapsed_s, 1),
        "commits": results_due["datasets"][0]["commits"] - before["datasets"][0]["commits"],
        "cpu_cores": round((cluster.cpu_s() - before_cpu_s) / elapsed_s, 2),
    }
    progress.print(f"  {done}")
    return done


def _record(number: int, seed: int) -> bytes:
    chance = random.Random(seed * 1_000_003 + number)
    record = {
        "id": f"report-{number:012d}",
        "etype": chance.randrange(_TYPES),
        "zone": chance.randrange(_ZONES),
        "x": round(chance.random() * 10_000, 2),
        "y": round(chance.random() * 10_000, 2),
        "severity": chance.randrange(1, 6),
        "message": ("Water is rising fast near the bridge; people on the roofs ask for boats. " * 4)[:286],
    }
    return json.dumps(record).encode()


class _Publisher:
    """Several connections, each sending batches and doing as told when asked to wait."""

    def __init__(self, url: str, seconds: float, seed: int) -> None:
        self._address = urlsplit(url)
        self._until = time.perf_counter() + seconds
        # Bodies are made before the clock starts: what is measured is the cluster, not this process.
        self._bodies = [
            b"\n".join(_record(batch * _RECORDS_PER_REQUEST + at, seed) for at in range(_RECORDS_PER_REQUEST))
            for batch in range(20)
        ]
        self._lock = threading.Lock()
        self.requests = 0
        self.overloaded = 0
        self.acks_ms: list[float] = []

    def run(self) -> dict[str, Any]:
        threads = [threading.Thread(target=self._send, args=(number,)) for number in range(_CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        acks = sorted(self.acks_ms)
        return {
            "records": self.requests * _RECORDS_PER_REQUEST,
            "overloaded": self.overloaded,
            "ack_p50_ms": round(acks[len(acks) // 2], 1),
            "ack_p99_ms": round(acks[int(len(acks) * 0.99)], 1),
        }

    def _send(self, number: int) -> None:
        connection = http.client.HTTPConnection(self._address.hostname or "", self._address.port)
        headers = {"Content-Type": "application/x-ndjson"}
        while time.perf_counter() < self._until:
            body = self._bodies[number % len(self._bodies)]
            number += 1
            begin = time.perf_counter()
            connection.request("POST", "/v1/feeds/reports/records", body, headers)
            response = connection.getresponse()
            answer = response.read()
            if response.status == 202:
                with self._lock:
                    self.requests += 1
                    self.acks_ms.append((time.perf_counter() - begin) * 1000)
            elif response.status in (429, 503):
                with self._lock:
                    self.overloaded += 1
                time.sleep(json.loads(answer)["error"]["retry_after_s"])
            else:
                raise RuntimeError(f"status {response.status}: {answer[:500]!r}")
        connection.close()


if __name__ == "__main__":
    _url, _seconds, _seed = sys.argv[1:]
    print(json.dumps(_Publisher(_url, float(_seconds), int(_seed)).run()))
