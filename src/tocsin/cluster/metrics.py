"""Metrics for Prometheus: counters and histograms per feed and channel."""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.35, 0.5, 0.8, 1.2, 2, 5, 10, 30, 60)


class Metrics:
    """One registry per cluster, so that two clusters in one process (as in tests) don't mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, buckets=_SECONDS, registry=self.registry)
        self._records = counter("tocsin_feed_records", "Records by feed and outcome", ["feed", "outcome"])
        self._runs = counter("tocsin_channel_runs", "Channel runs by outcome", ["channel", "outcome"])
        self._results = counter("tocsin_channel_results", "Results produced", ["channel"])
        self._result_bytes = counter("tocsin_channel_result_bytes", "Bytes of the results' payloads", ["channel"])
        spark_seconds = "Seconds in which Spark worked for the channel"
        self._spark_seconds = counter("tocsin_channel_spark_seconds", spark_seconds, ["channel"])
        known = "Rows that were no results, because ONCE PER had given one with the same key"
        self.known_rows = counter("tocsin_channel_known_rows", known, ["channel"])
        self.result_keys = gauge("tocsin_result_keys", "Keys that ONCE PER remembers")
        keys_bytes = "Size of these keys in memory, and in files that are mapped into it"
        self.result_keys_bytes = gauge("tocsin_result_keys_bytes", keys_bytes)
        self.overruns = counter("tocsin_channel_overruns", "Runs that outlasted their period", ["channel"])
        self._run_seconds = histogram("tocsin_channel_run_seconds", "Time of a run", ["channel"])
        lag = "Commits that the channel has not run over yet"
        self.window_lag = gauge("tocsin_channel_window_lag_commits", lag, ["channel"])
        self.paused = gauge("tocsin_channel_paused", "1 while the channel is paused", ["channel"])
        set_aside = "Records and subscriptions that a channel could not be run for"
        #: By channel, and by `record` or `subscription`.
        self.set_aside = counter("tocsin_channel_set_aside", set_aside, ["channel", "what"])
        self.pending = gauge("tocsin_landing_pending_bytes", "Accepted but not yet committed to tables")
        self._stages = histogram("tocsin_stage_seconds", "Time of a stage", ["stage"])
        #: The values of the counter of records, since Prometheus' counters can't be read one by one.
        self._records_so_far: Tally[tuple[str, str]] = Tally()
        self._lock = threading.Lock()

    def render(self) -> bytes:
        return generate_latest(self.registry)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self._stages.labels(stage).observe(time.perf_counter() - begin)

    def feed_records(self, feed: str, outcome: str, count: int) -> None:
        self._records.labels(feed, outcome).inc(count)
        with self._lock:
            self._records_so_far[feed, outcome] += count

    def records_so_far(self, feed: str, outcome: str) -> int:
        """Records of a feed with this outcome since the process began."""
        with self._lock:
            return self._records_so_far[feed, outcome]

    def run(self, channel: str, outcome: str, seconds: float) -> None:
        self._runs.labels(channel, outcome).inc()
        self._run_seconds.labels(channel).observe(seconds)

    def cost(self, channel: str, spark_s: float, results: int, result_bytes: int) -> None:
        self._spark_seconds.labels(channel).inc(spark_s)
        self._results.labels(channel).inc(results)
        self._result_bytes.labels(channel).inc(result_bytes)

    def forget_channel(self, channel: str) -> None:
        labels = {"channel": channel}
        costs = (self._spark_seconds, self._results, self._result_bytes)
        runs = (self._runs, self._run_seconds, self.overruns, self.window_lag, self.paused, self.set_aside)
        for family in (*costs, *runs, self.known_rows):
            family.remove_by_labels(labels)

    def forget_feed(self, feed: str) -> None:
        self._records.remove_by_labels({"feed": feed})
        with self._lock:
            for outcome in ("accepted", "rejected"):
                del self._records_so_far[feed, outcome]
