"""A broker's metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tocsin.broker.core.machine import BrokerState
from tocsin.model.latencies import BOUNDS_S, LatencyCounts

#: Counts up to some moment: latencies by bucket, cache hits, cache misses.
_Counted = tuple[tuple[int, ...], int, int]


class BrokerMetrics(Collector):
    """Counts that change with every delivery are plain numbers, read when metrics are asked for."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self.bytes_in = 0
        self.bytes_out = 0
        self._latencies = LatencyCounts()
        self._last_reported: _Counted | None = None
        self._state: BrokerState | None = None
        self._rated: tuple[float, int, int, float] | None = None
        counter = partial(Counter, registry=self._registry)
        self.pulls = counter("tocsin_broker_pulls", "Pulls from the cluster", ["outcome"])
        self.closed = counter("tocsin_broker_closed", "Connections closed by the broker", ["code"])
        self.failures = counter("tocsin_broker_failures", "Mistakes and failed writes that ended a connection")
        self.refused = counter("tocsin_broker_refused", "Connections without a valid token")
        self.pings = counter("tocsin_broker_pings", "Pings to peers by outcome: measured, failed", ["outcome"])
        self.coordinate_error = Gauge(
            "tocsin_broker_coordinate_error",
            "How far off estimates from the broker's coordinate were lately, relative to the round trips",
            registry=self._registry,
        )

    def watch(self, state: BrokerState) -> None:
        self._state = state

    def collect(self) -> Iterable[Metric]:
        state = self._state
        if state is None:
            return
        gauges: dict[str, tuple[str, float]] = {
            "connections": ("Subscribers connected", state.connections),
            "sessions": ("Subscribers known, connected or not", state.sessions),
            "backend_subscriptions": ("Backend subscriptions held", state.backends),
            "frontend_subscriptions": ("Frontend subscriptions", state.frontends),
            "cache_bytes": ("Bytes of recent results in memory", state.cache.size_bytes),
            "store_writable": ("1 while the session store takes changes, else 0", float(not state.unwritable)),
            "cursor": ("Live subscriptions have been sent all results up to this cursor", state.through),
        }
        counters: dict[str, tuple[str, float]] = {
            "deliveries": ("Notifications sent", state.deliveries),
            "cache_hits": ("Times that catching up was served from memory", state.cache.hits),
            "cache_misses": ("Times that catching up needed the cluster", state.cache.misses),
            "resumes": ("Subscriptions that went on after a position", state.resumed),
            "resume_gaps": ("Subscriptions that went on after a position whose results were gone", state.resume_gaps),
            "bytes_in": ("Bytes of results pulled", self.bytes_in),
            "bytes_out": ("Bytes of notifications sent", self.bytes_out),
        }
        filters, matched, skipped = state.filter_counts
        gauges["filters"] = ("Frontend subscriptions with a filter", filters)
        counters["filter_matched"] = ("Live results sent because they match a subscriber's filter", matched)
        counters["filter_skipped"] = ("Live results not sent because they match no filter of the subscriber", skipped)
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(f"tocsin_broker_{name}", text, value=value)
        for name, (text, value) in counters.items():
            yield CounterMetricFamily(f"tocsin_broker_{name}", text, value=value)
        reached = accumulate(self._latencies.counts)
        buckets = list(zip([*(f"{bound_s:g}" for bound_s in BOUNDS_S), "+Inf"], reached, strict=True))
        yield HistogramMetricFamily(
            "tocsin_broker_notification_seconds",
            "From a result's commit until it was written to the sockets of live subscribers",
            buckets=buckets,
            sum_value=self._latencies.sum_s,
        )

    def rates(self, now_s: float, cpu_s: Callable[[], float] = time.process_time) -> dict[str, Any]:
        """Bytes and CPU per second since the last call."""
        now = (now_s, self.bytes_in, self.bytes_out, cpu_s())
        before, self._rated = self._rated or now, now
        elapsed_s = now[0] - before[0]
        if elapsed_s <= 0:
            return {}
        return {
            "bytes_in_per_s": (now[1] - before[1]) / elapsed_s,
            "bytes_out_per_s": (now[2] - before[2]) / elapsed_s,
            "cpu_cores": (now[3] - before[3]) / elapsed_s,
        }

    def delivered(self, receivers: Mapping[int, int], now_us: int) -> None:
        """Results have been written to sockets: commit times, and the number of sockets for each."""
        for committed_at_us, count in receivers.items():
            self._latencies.observe((now_us - committed_at_us) / 1e6, count)

    def counted(self) -> _Counted:
        """All counts since the start."""
        cache = self._state.cache if self._state is not None else None
        return tuple(self._latencies.counts), cache.hits if cache else 0, cache.misses if cache else 0

    def unreported(self, counted: _Counted) -> dict[str, Any]:
        """The counts that the coordinator does not know yet, as a heartbeat has them."""
        latencies, hits, misses = counted
        reported, reported_hits, reported_misses = self._last_reported or ((0,) * len(latencies), 0, 0)
        fresh = [now - before for now, before in zip(latencies, reported, strict=True)]
        return {
            "latencies": fresh if any(fresh) else [],
            "cache_hits": hits - reported_hits,
            "cache_misses": misses - reported_misses,
        }

    def reported(self, counted: _Counted) -> None:
        self._last_reported = counted

    def exposition(self) -> bytes:
        return generate_latest(self._registry)
