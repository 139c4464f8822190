"""What a cluster costs that has nothing to do, and how soon it serves.

The peer is a bare Spark session with one idle streaming query, in the same run.
"""

from __future__ import annotations

import time
from typing import Any

from tocsin.lab.benchmarks.measuring import bench_folder, machine, progress
from tocsin.lab.benchmarks.peers import bare_spark
from tocsin.testing.network import running_cluster

_DATASETS = """
CREATE ACTIVE DATASET Reports (id STRING, etype STRING, zone INT, PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
"""


def run(channels: int = 50, settle_s: float = 30.0, measure_s: float = 30.0) -> dict[str, Any]:
    report: dict[str, Any] = {"benchmark": "idle", "machine": machine(), "channels": channels}
    with bench_folder() as root:
        progress.print("a bare Spark session with one idle streaming query")
        (bare,) = bare_spark("idle", root / "bare", settle_s, measure_s)
        progress.print(f"Tocsin with {channels} channels")
        begin = time.perf_counter()
        with running_cluster(root / "tocsin") as cluster, cluster.client() as client:
            client.wait_ready(120)
            ready_s = time.perf_counter() - begin
            client.sql(_DATASETS)
            client.register_broker("bench")
            for number in range(channels):
                # Half of them every second, half of them continuous.
                kind = "REPETITIVE CHANNEL" if number % 2 else "CONTINUOUS CHANNEL"
                period = "PERIOD 1 SECOND" if number % 2 else ""
                body = f"SELECT r.* FROM Reports r WHERE is_new(r) AND r.etype = :etype AND r.zone >= {number}"
                client.sql(f"CREATE {kind} C{number} (etype STRING) {period} AS {body}")
                client.subscribe("bench", [{"channel": f"C{number}", "parameters": {"etype": "flood"}}])
            client.publish("reports", [{"id": "1", "etype": "fire", "zone": 1}], wait_commit=True)
            time.sleep(settle_s)
            before_s = cluster.cpu_s()
            time.sleep(measure_s)
            share = (cluster.cpu_s() - before_s) / measure_s
            report |= {
                "ready_s": round(ready_s, 1),
                "idle_percent_of_a_core": round(100 * share, 1),
                "bare_idle_percent_of_a_core": round(100 * bare, 1),
                "ratio_to_bare_spark": round(share / bare, 2) if bare else None,
                "memory_mb": cluster.memory_mb(),
            }
    return report
