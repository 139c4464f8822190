"""Charges channels with what they cost, in their state and in the metrics."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.cluster.channels.core.cost import Cost
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.metrics import Metrics
from tocsin.runtime.clock import Clock


class ChannelCosts:
    """Any thread may call it: people look at costs while channels run."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._lock = threading.Lock()

    @contextmanager
    def spark(self, state: ChannelState) -> Iterator[None]:
        """Spark works for a run of the channel within this block. It costs the same if the run fails."""
        begin_s = self._clock.monotonic_s()
        try:
            yield
        finally:
            self._charge(state, Cost(spark_s=self._clock.monotonic_s() - begin_s))

    def results(self, state: ChannelState, rows: pa.Table) -> None:
        """These results were committed."""
        if rows.num_rows:
            size_bytes = pc.sum(pc.binary_length(rows.column("payload"))).as_py()
            self._charge(state, Cost(results=rows.num_rows, result_bytes=size_bytes))

    def so_far(self, state: ChannelState) -> tuple[Cost, Cost]:
        """Since the process began, and in the last hour, to the millisecond."""
        with self._lock:
            costs = (state.costs.total, state.costs.last_hour(self._clock.monotonic_s()))
        total, last_hour = (replace(one, spark_s=round(one.spark_s, 3)) for one in costs)
        return total, last_hour

    def forget(self, state: ChannelState) -> None:
        """The channel was dropped: its series disappear. A cancelled run that ends later must not bring them back."""
        with self._lock:
            self._metrics.forget_channel(state.channel.name)

    def _charge(self, state: ChannelState, cost: Cost) -> None:
        with self._lock:
            if not state.is_stopping:
                state.costs.add(cost, self._clock.monotonic_s())
                self._metrics.cost(state.channel.name, cost.spark_s, cost.results, cost.result_bytes)
