"""Latencies counted in fixed buckets, so that counts of many brokers can be added up and still give percentiles.

Bounds grow by the square root of two, from 1 ms to 131 s. A percentile is interpolated within its bucket, so it is off
by two fifths at worst, when all latencies are alike, and by far less when they are spread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

#: A latency is counted in the first bucket whose bound it does not exceed; longer ones in one more bucket.
BOUNDS_S: tuple[float, ...] = tuple(round(0.001 * 2 ** (half / 2), 6) for half in range(35))
BUCKETS = len(BOUNDS_S) + 1


class LatencyCounts:
    """Counts per bucket, and the sum of all latencies."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        self.sum_s = 0.0

    def observe(self, latency_s: float, times: int = 1) -> None:
        """Clocks of two machines differ: a negative latency counts as zero."""
        latency_s = max(0.0, latency_s)
        self.counts[bisect_left(BOUNDS_S, latency_s)] += times
        self.sum_s += latency_s * times


def percentile_s(counts: Sequence[int], share: float) -> float | None:
    """The latency that `share` of the counted ones did not exceed, interpolated within its bucket; None without any.

    >>> counts = LatencyCounts()
    >>> for latency_ms in range(1, 101):
    ...     counts.observe(latency_ms / 1000)
    >>> round(percentile_s(counts.counts, 0.5), 3)
    0.05
    """
    total = sum(counts)
    if not total:
        return None
    wanted = share * total
    for bucket, reached in enumerate(accumulate(counts)):
        if reached >= wanted and counts[bucket]:
            if bucket == len(BOUNDS_S):
                break
            low_s = BOUNDS_S[bucket - 1] if bucket else 0.0
            inside = (wanted - (reached - counts[bucket])) / counts[bucket]
            return low_s + (BOUNDS_S[bucket] - low_s) * inside
    return BOUNDS_S[-1]
