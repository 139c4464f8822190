"""What brokers counted, over the last seconds: per broker, and over all."""

from __future__ import annotations

import pytest

from tocsin.coordinator.load.deliveries import Deliveries, DeliveryCounts
from tocsin.model.latencies import LatencyCounts


def counts(latency_s: float, times: int) -> list[int]:
    counted = LatencyCounts()
    counted.observe(latency_s, times)
    return counted.counts


def test_brokers_are_merged() -> None:
    """Percentiles over all brokers come from all counts together, weighted by how much each delivered."""
    known = DeliveryCounts()
    known.observe("a", 100.2, counts(0.01, 990), hits=8, misses=0)
    known.observe("b", 100.7, counts(1.0, 10), hits=0, misses=2)
    both = known.of(["a", "b", "unheard"], 101.0)
    assert (both.notifications, both.cache_hit_rate) == (1000, 0.8)
    assert both.p50_s == pytest.approx(0.01, rel=0.2)
    assert both.p99_s == pytest.approx(0.01, rel=0.2)
    assert known.of(["b"], 101.0).p50_s == pytest.approx(1.0, rel=0.2)


def test_the_past_is_forgotten() -> None:
    """Only the last seconds count; after a minute of silence nothing is left."""
    known = DeliveryCounts()
    known.observe("a", 100.0, counts(5.0, 10), 1, 0)
    known.observe("a", 109.0, counts(0.01, 10), 0, 1)
    assert known.of(["a"], 109.0, within_s=5).notifications == 10
    assert known.of(["a"], 109.0, within_s=10).notifications == 20
    assert known.of(["a"], 109.0, within_s=5).cache_hit_rate == 0.0
    assert known.of(["a"], 161.0).notifications == 10
    assert known.of(["a"], 500.0) == Deliveries()


def test_removed_brokers_are_forgotten() -> None:
    """Who is gone counts no more."""
    known = DeliveryCounts()
    known.observe("a", 1.0, [], 1, 1)
    assert known.of(["a"], 1.0).cache_hit_rate == 0.5
    known.forget("a")
    assert known.of(["a"], 1.0) == Deliveries()
