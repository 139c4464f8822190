"""What `ONCE PER` costs when a million people have been notified of ten things each.

Two channels with the same query and the same subscriptions, one of them with `ONCE PER`, run in turns over the same new
records. Each record is for everybody. It is either new, so that all its rows are results of both, or known, so that all
rows of the one with `ONCE PER` are left out.
"""

from __future__ import annotations

import json
from statistics import median
from typing import Any

from tocsin.cluster.cluster import Cluster
from tocsin.cluster.feeds.core.bodies import DecodedBody
from tocsin.cluster.interpreter import run_script
from tocsin.lab.benchmarks.channels import running_cluster
from tocsin.lab.benchmarks.measuring import machine, memory_mb, progress

_CHUNK = 100_000
_REPEATS = 5
_SCHEMA = """
CREATE ACTIVE DATASET Reports (id INT, report STRING, severity INT, message STRING, PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
"""
_CHANNEL = """
CREATE REPETITIVE CHANNEL {name} (least INT) PERIOD 24 HOURS {once} AS
  SELECT r.report, r.message FROM Reports r WHERE is_new(r) AND r.severity >= :least;
"""


class _Workload:
    def __init__(self, cluster: Cluster, subscriptions: int) -> None:
        self.cluster = cluster
        self.subscriptions = subscriptions
        self._records = 0
        run_script(cluster, _SCHEMA)
        cluster.registry.put_broker("bench")

    def create(self, name: str, once: str = "") -> None:
        run_script(self.cluster, _CHANNEL.format(name=name, once=once))
        for first in range(0, self.subscriptions, _CHUNK):
            wanted = [(least,) for least in range(first, min(first + _CHUNK, self.subscriptions))]
            self.cluster.subscribe("bench", name, wanted)

    def publish(self, report: int) -> None:
        """A record for everybody."""
        self._records += 1
        record = {
            "id": self._records,
            "report": f"report-{report}",
            "severity": self.subscriptions,
            "message": "x" * 100,
        }
        feed = self.cluster.catalogue.feed("reports")
        receipt = self.cluster.intake.accept(feed, DecodedBody(json.dumps(record).encode(), 1)).result()
        self.cluster.intake.wait_ingested(receipt.end).result()

    def run(self, name: str) -> int:
        """The number of results."""
        state = self.cluster.executor.states[name.lower()]
        self.cluster.executor.run([state], is_patient=True)
        return state.last_results


def run(subscriptions: int = 1_000_000, remembered: int = 10_000_000) -> dict[str, Any]:
    report: dict[str, Any] = {"benchmark": "once", "machine": machine(), "subscriptions": subscriptions}
    with running_cluster(spark_driver_memory="6g") as cluster:
        work = _Workload(cluster, subscriptions)
        work.create("Once", "ONCE PER (r.report)")
        rounds = max(1, remembered // subscriptions)
        for number in range(rounds):
            work.publish(number)
            progress.print(f"  {work.run('Once') * (number + 1):,} keys remembered", end="\r")
        before = memory_mb()
        work.create("Plain")
        _in_turns(work, rounds, rounds + 2)
        new = _in_turns(work, rounds + 2, rounds + 2 + _REPEATS)
        known = _in_turns(work, 0, min(rounds, _REPEATS))
        keys = cluster.results.keys
        return report | {
            "remembered": len(keys),
            "remembered_mb": keys.size_bytes >> 20,
            "new": new,
            "known": known,
            "ratio_to_plain": max(new["ratio_to_plain"], known["ratio_to_plain"]),
            "memory_before": before,
            "memory": memory_mb(),
        }


def _in_turns(work: _Workload, first: int, last: int) -> dict[str, Any]:
    """Medians of runs over the records `first` to `last`."""
    once_s: list[float] = []
    plain_s: list[float] = []
    results = 0
    for number in range(first, last):
        work.publish(number)
        for name, times in (("Once", once_s), ("Plain", plain_s))[:: 1 if number % 2 else -1]:
            begun = work.cluster.clock.monotonic_s()
            count = work.run(name)
            times.append(work.cluster.clock.monotonic_s() - begun)
            results = count if name == "Once" else results
    return {
        "results": results,
        "once_s": round(median(once_s), 3),
        "plain_s": round(median(plain_s), 3),
        "ratio_to_plain": round(median(once_s) / median(plain_s), 2),
    }
