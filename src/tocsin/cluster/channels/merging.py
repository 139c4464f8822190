"""Merging subscriptions in the background: one thread, one merge at a time, for all channels.

So at most one channel has tiers twice in memory, and a run waits only for the moment in which the new tier replaces the
old ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import structlog
from pyspark.sql import SparkSession

from tocsin.cluster.channels.state import ChannelState
from tocsin.runtime.clock import Clock

log = structlog.get_logger(__name__)

#: A merge that failed is not tried again at once: it may be a large one, and memory or disk space may be short.
_RETRY_AFTER_S = 60.0
#: Spark's scheduler shares the cores between pools; without a pool of their own, runs would wait for a whole merge.
_POOL = "merging"


@dataclass(eq=False)
class SubscriptionMerging:
    """`between_runs` keeps runs of a channel from beginning, and raises if one under way does not end."""

    spark: SparkSession
    clock: Clock
    channels: Callable[[], Iterable[ChannelState]]
    between_runs: Callable[[ChannelState], AbstractContextManager[object]]

    def __post_init__(self) -> None:
        self._retry_at_s: dict[str, float] = {}
        self._is_wanted = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._keep_merging, name="subscription-merging", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Runs may have left tiers to merge."""
        self._is_wanted.set()

    def stop(self) -> None:
        """Wait for a merge under way, and begin no more."""
        self._stopping = True
        self._is_wanted.set()
        self._thread.join()

    def _keep_merging(self) -> None:
        self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
        while self._is_wanted.wait() and not self._stopping:
            self._is_wanted.clear()
            for channel in list(self.channels()):
                self._merge_all(channel)

    def _merge_all(self, channel: ChannelState) -> None:
        name = channel.channel.name
        if self.clock.monotonic_s() < self._retry_at_s.get(name, 0.0):
            return
        try:
            while not self._stopping and channel.subscriptions.merge(self.between_runs(channel)):
                pass
            self._retry_at_s.pop(name, None)
        except Exception as exc:
            self._retry_at_s[name] = self.clock.monotonic_s() + _RETRY_AFTER_S
            log.warning("merging subscriptions failed; trying again later", channel=name, exc_info=exc)
