"""Charging channels with what they cost."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tocsin.cluster.channels.compiler.compile import compile_channel
from tocsin.cluster.channels.core.cost import Cost
from tocsin.cluster.channels.costs import ChannelCosts
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.metrics import Metrics
from tocsin.model.catalogue import Channel, ChannelKind, Dataset, DatasetKind
from tocsin.model.schema import Column, ColumnType, Schema

_REPORTS = Dataset("Reports", DatasetKind.ACTIVE, Schema((Column("id", ColumnType.INT),), ("id",)))
_CHANNEL = Channel("Each", ChannelKind.CONTINUOUS, (), "SELECT r.id FROM Reports r WHERE is_new(r)")


class Clock:
    now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s


def made() -> tuple[Any, ChannelCosts, Metrics, ChannelState]:
    clock: Any = Clock()
    metrics = Metrics()
    subscriptions: Any = None
    state = ChannelState(_CHANNEL, compile_channel(_CHANNEL, {"reports": _REPORTS}), subscriptions)
    return clock, ChannelCosts(clock, metrics), metrics, state


def test_a_channel_is_charged_for_spark_results_and_bytes() -> None:
    """Bytes are those of the payloads in UTF-8; the metrics say the same."""
    clock, costs, metrics, state = made()
    with costs.spark(state):
        clock.now_s += 1.5
    costs.results(state, pa.table({"subscription": [1, 2], "payload": ['{"a":1}', '{"a":"ä"}']}))
    wanted = Cost(spark_s=1.5, results=2, result_bytes=7 + 10)
    assert costs.so_far(state) == (wanted, wanted)
    text = metrics.render().decode()
    assert 'tocsin_channel_spark_seconds_total{channel="Each"} 1.5' in text
    assert 'tocsin_channel_results_total{channel="Each"} 2.0' in text
    assert 'tocsin_channel_result_bytes_total{channel="Each"} 17.0' in text
    clock.now_s += 3_600
    assert costs.so_far(state) == (wanted, Cost())


def test_a_run_that_fails_costs_what_it_took() -> None:
    """Spark has worked for it all the same."""
    clock, costs, _, state = made()

    def run() -> None:
        with costs.spark(state):
            clock.now_s += 2.0
            raise RuntimeError("no memory")

    with pytest.raises(RuntimeError):
        run()
    assert costs.so_far(state)[0] == Cost(spark_s=2.0)


def test_a_run_that_outlasts_its_channel_leaves_no_series() -> None:
    """DROP CHANNEL cancels it; when it ends, the series of the channel have been removed already."""
    clock, costs, metrics, state = made()
    with costs.spark(state):
        clock.now_s += 1.0
        state.is_stopping = True
        costs.forget(state)
    assert "Each" not in metrics.render().decode()
