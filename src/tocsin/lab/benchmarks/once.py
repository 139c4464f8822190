"""What `ONCE PER` costs when a million people have been notified of ten things each.

Two channels with the same query and the same subscriptions, one of them with `ONCE PER`, run in turns over the same new
records. Each record is for everybody. It is either new, so that all its rows are results of both, or known, so that all
rows of the one with `ONCE PER` are left out.

Two more do the same over a keyed dataset, one of them WITH EXITS. Each batch opens a report for everybody and closes
the one before. So both have as many results, and the one WITH EXITS has as many exits beside them.
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
from tocsin.runtime.usage import usage

_CHUNK = 100_000
_REPEATS = 5
#: Runs that are not measured, because Java compiles what it runs often.
_WARM_UP = 4
_SCHEMA = """
CREATE ACTIVE DATASET Reports (id INT, report STRING, severity INT, message STRING, PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
"""
_CHANNEL = """
CREATE REPETITIVE CHANNEL {name} (least INT) PERIOD 24 HOURS {once} AS
  SELECT r.report, r.message FROM Reports r WHERE is_new(r) AND r.severity >= :least;
"""


_INCIDENTS = """
CREATE KEYED DATASET Incidents (id INT, open BOOLEAN, severity INT, message STRING, PRIMARY KEY (id));
CREATE FEED incidents INTO Incidents FROM HTTP;
"""
_OPEN_ONES = """
CREATE REPETITIVE CHANNEL {name} (least INT) PERIOD 24 HOURS {once} AS
  SELECT i.id, i.message FROM Incidents i WHERE is_new(i) AND i.open AND i.severity >= :least;
"""


class _Workload:
    def __init__(self, cluster: Cluster, subscriptions: int) -> None:
        self.cluster = cluster
        self.subscriptions = subscriptions
        self._records = 0
        run_script(cluster, _SCHEMA)
        cluster.registry.put_broker("bench")

    def create(self, name: str, once: str = "", channel: str = _CHANNEL) -> None:
        run_script(self.cluster, channel.format(name=name, once=once))
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
        self._send("reports", [record])

    def open_and_close(self, number: int) -> None:
        """An incident for everybody begins, and the one before it ends."""
        incidents = [(number, True), *([(number - 1, False)] if number else [])]
        about = {"severity": self.subscriptions, "message": "x" * 100}
        self._send("incidents", [{"id": one, "open": is_open, **about} for one, is_open in incidents])

    def _send(self, feed: str, records: list[dict[str, Any]]) -> None:
        lines = b"\n".join(json.dumps(record).encode() for record in records)
        receipt = self.cluster.intake.accept(
            self.cluster.catalogue.feed(feed), DecodedBody(lines, len(records))
        ).result()
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
        exits = _with_exits(work)
        return report | {
            "remembered": len(keys),
            "remembered_mb": keys.size_bytes >> 20,
            "new": new,
            "known": known,
            "ratio_to_plain": max(new["ratio_to_plain"], known["ratio_to_plain"]),
            "exits": exits,
            "with_exits_ratio": exits["cpu_ratio"],
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


def _with_exits(work: _Workload) -> dict[str, Any]:
    """Medians of runs over incidents, in seconds of all processes' CPU: other work on the machine does not count."""
    run_script(work.cluster, _INCIDENTS)
    work.create("WithExits", "ONCE PER (i.id) WITH EXITS", _OPEN_ONES)
    work.create("PlainIncidents", "", _OPEN_ONES)
    took_s: dict[str, list[float]] = {"WithExits": [], "PlainIncidents": []}
    rows: dict[str, int] = {}
    for number in range(_WARM_UP + _REPEATS):
        work.open_and_close(number)
        for name in list(took_s)[:: 1 if number % 2 else -1]:
            begun_s = usage().cpu_s
            rows[name] = work.run(name)
            took_s[name].append(usage().cpu_s - begun_s)
    exits_s, plain_s = (median(times[_WARM_UP:]) for times in took_s.values())
    return {
        "results": rows["PlainIncidents"],
        "exits": rows["WithExits"] - rows["PlainIncidents"],
        "exits_cpu_s": round(exits_s, 3),
        "plain_cpu_s": round(plain_s, 3),
        "cpu_ratio": round(exits_s / plain_s, 2),
    }
