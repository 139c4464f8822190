"""Latencies in buckets: what is counted can be added up, and percentiles come close to the truth."""

from __future__ import annotations

import random

import pytest

from tocsin.model.latencies import BOUNDS_S, BUCKETS, LatencyCounts, percentile_s


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_percentiles_are_close(share: float) -> None:
    """Of latencies that are spread, as they are in practice, a percentile is off by less than a fifth."""
    dice = random.Random(7)
    for spread in (0.1, 0.5, 1.5):
        drawn = sorted(0.05 * dice.lognormvariate(0, spread) for _ in range(5000))
        counts = LatencyCounts()
        for one in drawn:
            counts.observe(one)
        found_s = percentile_s(counts.counts, share)
        assert found_s == pytest.approx(drawn[int(share * len(drawn)) - 1], rel=0.2)
        assert counts.sum_s == pytest.approx(sum(drawn))


def test_the_ends_are_counted() -> None:
    """What is out of range, either way, is counted at the end of the range; nothing has no percentile."""
    counts = LatencyCounts()
    assert percentile_s(counts.counts, 0.5) is None
    counts.observe(-3.0, times=2)
    counts.observe(1e9)
    assert (counts.counts[0], counts.counts[-1], sum(counts.counts)) == (2, 1, 3)
    assert percentile_s(counts.counts, 1.0) == BOUNDS_S[-1]
    assert counts.sum_s == 1e9


def test_counts_of_brokers_add_up() -> None:
    """Percentiles over all brokers are those of all that was counted, not means of percentiles."""
    quick, slow = LatencyCounts(), LatencyCounts()
    quick.observe(0.01, times=99)
    slow.observe(10.0, times=1)
    together = [a + b for a, b in zip(quick.counts, slow.counts, strict=True)]
    assert len(together) == BUCKETS
    assert percentile_s(together, 0.5) == pytest.approx(0.01, rel=0.2)
    assert percentile_s(together, 0.995) == pytest.approx(10, rel=0.2)
