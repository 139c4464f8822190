"""Limits of a run, with a pretended Spark."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from tocsin.cluster.channels.compiler.compile import compile_channel
from tocsin.cluster.channels.core.splitting import Window
from tocsin.cluster.channels.costs import ChannelCosts
from tocsin.cluster.channels.runs import ChannelRuns, RunCancelled, RunFailed, RunLimits, RunTooLarge
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.metrics import Metrics
from tocsin.model.catalogue import Channel, ChannelKind, Dataset, DatasetKind
from tocsin.model.schema import Column, ColumnType, Schema
from tocsin.runtime.clock import SystemClock

_REPORTS = Dataset("Reports", DatasetKind.ACTIVE, Schema((Column("id", ColumnType.INT),), ("id",)))
_CHANNEL = Channel("Each", ChannelKind.CONTINUOUS, (), "SELECT r.id FROM Reports r WHERE is_new(r)")


class PretendedSpark:
    """A job runs until it is cancelled, or fails with what it is told to."""

    def __init__(self, failure: str = "") -> None:
        self.sparkContext = self._jsc = self
        self.defaultParallelism = 2
        self.failure = failure
        self.begun, self.cancelled = threading.Event(), threading.Event()

    def sc(self) -> PretendedSpark:
        return self

    def setJobGroup(self, *arguments: Any, **options: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def setLocalProperty(self, *arguments: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def cancelJobGroupAndFutureJobs(self, group: str) -> None:  # noqa: N802 - Spark's name
        self.cancelled.set()

    def sql(self, text: str) -> PretendedSpark:
        self.text = text
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        self.begun.set()
        if not self.failure:
            assert self.cancelled.wait(20)
        raise PySparkException(self.failure or "Job was cancelled")


class PretendedSubscriptions:
    def __len__(self) -> int:
        return 1

    def view(self) -> str:
        return "subscriptions"

    def left_in_view(self, ids: set[int]) -> set[int]:
        return ids & {7}

    def radius_classes(self) -> dict[Any, int]:
        return {}


class PretendedViews:
    def rows_in(self, name: str) -> int:
        return 1

    def new(self, *arguments: Any) -> Any:
        return nullcontext("new_rows")


def run(spark: PretendedSpark, timeout_s: float = 30) -> tuple[ChannelRuns, ChannelState]:
    views: Any = PretendedViews()
    subscriptions: Any = PretendedSubscriptions()
    pretended: Any = spark
    store: Any = None
    costs = ChannelCosts(SystemClock(), Metrics())
    runs = ChannelRuns(pretended, store, views, RunLimits(timeout_s, 1 << 20, 1 << 20), costs)
    return runs, ChannelState(_CHANNEL, compile_channel(_CHANNEL, {"reports": _REPORTS}), subscriptions)


_WINDOW = Window({"Reports": 0}, {"Reports": 1})


def test_a_run_that_takes_too_long_is_ended() -> None:
    """It is cancelled when its time is up, and has failed because of that."""
    runs, state = run(PretendedSpark(), timeout_s=0.05)
    with pytest.raises(RunFailed, match=r"took longer than 0.05 s"):
        runs.run(state, _WINDOW)
    assert state.job_group == ""
    assert state.costs.total.spark_s >= 0.05, "what Spark did in vain is a cost too"


def test_a_run_leaves_out_failed_subscriptions_only_while_spark_has_them() -> None:
    """Otherwise the query would grow with every subscription that ever failed."""
    spark = PretendedSpark("planted")
    runs, state = run(spark)
    state.failed, state.spoiling = {3, 7, 9}, {7, 9}
    with pytest.raises(RunFailed):
        runs.run(state, _WINDOW)
    assert "NOT IN (7)" in spark.text
    assert (state.failed, state.spoiling) == ({3, 7, 9}, {7})


def test_a_run_can_be_cancelled() -> None:
    """One whose channel is dropped ends, and nobody is to blame for that; none begins after that."""
    spark = PretendedSpark()
    runs, state = run(spark)
    outcome: list[BaseException] = []

    def attempt() -> None:
        try:
            runs.run(state, _WINDOW)
        except RunCancelled as exc:
            outcome.append(exc)

    running = threading.Thread(target=attempt)
    running.start()
    assert spark.begun.wait(20)
    runs.cancel(state)
    running.join(20)
    assert len(outcome) == 1
    state.is_stopping = True
    with pytest.raises(RunCancelled):
        runs.run(state, _WINDOW)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[INVALID_TIMEZONE] The timezone: x is invalid", RunFailed),
        ("bigger than spark.driver.maxResultSize", RunTooLarge),
        ("[USER_RAISED_EXCEPTION] more results than one run may hand over at once", RunTooLarge),
        ("[USER_RAISED_EXCEPTION] a result may have 1048576 bytes at most", RunFailed),
        ("No space left on device", PySparkException),
    ],
)
def test_failures_are_told_apart(text: str, kind: type[Exception]) -> None:
    """What the data did, what is merely too much, and what the machine did, for which no record is to blame."""
    runs, state = run(PretendedSpark(text))
    with pytest.raises(kind) as failure:
        runs.run(state, _WINDOW)
    assert type(failure.value) is kind
