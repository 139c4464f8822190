"""Subscriptions on their way into Spark survive a Spark that fails once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tocsin.cluster.channels.subscriptions import ChannelSubscriptions
from tocsin.model.catalogue import BackendSubscription, Channel, ChannelKind, Parameter
from tocsin.model.schema import ColumnType


class PretendedSpark:
    """Just enough of a session: frames are lists of ids, views are kept by name, and any call can be made to fail."""

    def __init__(self) -> None:
        self.views: dict[str, list[int]] = {}
        self.failing = ""
        self.read = self.catalog = self.sparkContext = self
        self.defaultParallelism = 2

    def schema(self, schema: object) -> PretendedSpark:
        return self

    def parquet(self, *files: str) -> PretendedFrame:
        self.fail_if("parquet")
        return PretendedFrame(self, [one for file in files for one in pq.read_table(file)["_subscription"].to_pylist()])

    def dropTempView(self, name: str) -> None:  # noqa: N802 - Spark's name
        self.fail_if("dropTempView")
        del self.views[name]

    def fail_if(self, call: str) -> None:
        if self.failing == call:
            self.failing = ""
            raise RuntimeError(f"{call} failed once")


class PretendedFrame:
    def __init__(self, spark: PretendedSpark, ids: list[int]) -> None:
        self.spark, self.ids = spark, ids

    def cache(self) -> PretendedFrame:
        return self

    def count(self) -> int:
        self.spark.fail_if("count")
        return len(self.ids)

    def unionAll(self, other: PretendedFrame) -> PretendedFrame:  # noqa: N802 - Spark's name
        return PretendedFrame(self.spark, self.ids + other.ids)

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802 - Spark's name
        self.spark.fail_if("createOrReplaceTempView")
        self.spark.views[name] = self.ids

    def unpersist(self, blocking: bool) -> None:
        pass


@pytest.mark.parametrize("call", ["parquet", "count", "createOrReplaceTempView", "dropTempView"])
@pytest.mark.parametrize("additions", [2, 9])
def test_a_failed_run_neither_forgets_nor_doubles_subscriptions(tmp_path: Path, call: str, additions: int) -> None:
    """Whichever step fails, and whether by addition or by fold, the next view has everyone exactly once."""
    spark: Any = PretendedSpark()
    channel = Channel("C", ChannelKind.CONTINUOUS, (Parameter("a", ColumnType.STRING),), "SELECT 1")
    subscriptions = ChannelSubscriptions(spark, channel, tmp_path)
    for one in range(1, additions + 1):
        subscriptions.add([BackendSubscription(one, "C", (str(one),), "")])
        if one < additions:
            subscriptions.view()
    subscriptions.remove([1])
    spark.failing = call
    with pytest.raises(RuntimeError, match=call):
        subscriptions.view()
    assert set(spark.views[subscriptions.view()]) - {1} == set(range(2, additions + 1))
    assert len(spark.views[subscriptions.view()]) == len(set(spark.views[subscriptions.view()]))
