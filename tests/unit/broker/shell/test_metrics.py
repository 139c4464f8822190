"""What a broker counts, and what of it the coordinator is told."""

from __future__ import annotations

import random

from tocsin.broker.core.limits import Limits
from tocsin.broker.core.machine import BrokerState
from tocsin.broker.shell.metrics import BrokerMetrics
from tocsin.model.latencies import percentile_s


def test_each_count_is_told_once_it_was_heard() -> None:
    """What a heartbeat that got no answer told is told again with the next one; what was answered is not."""
    metrics = BrokerMetrics()
    state = BrokerState("b", Limits(), random.Random(0))
    metrics.watch(state)
    assert metrics.unreported(metrics.counted()) == {"latencies": [], "cache_hits": 0, "cache_misses": 0}
    metrics.delivered({1_000_000: 5, 900_000: 1}, now_us=1_050_000)
    state.cache.hits += 2
    state.cache.misses += 1
    first = metrics.counted()
    fresh = metrics.unreported(first)
    assert (sum(fresh["latencies"]), fresh["cache_hits"], fresh["cache_misses"]) == (6, 2, 1)
    assert 0.04 < (percentile_s(fresh["latencies"], 0.5) or 0) < 0.06
    metrics.delivered({1_000_000: 1}, now_us=1_050_000)
    assert sum(metrics.unreported(metrics.counted())["latencies"]) == 7
    metrics.reported(first)
    assert sum(metrics.unreported(metrics.counted())["latencies"]) == 1
    assert b'tocsin_broker_notification_seconds_bucket{le="+Inf"} 7.0' in metrics.exposition()
