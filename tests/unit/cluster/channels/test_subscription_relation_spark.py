"""A channel's subscriptions in a real Spark."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tocsin.cluster.channels import subscription_relation as module
from tocsin.cluster.channels.subscription_relation import ChannelSubscriptions
from tocsin.model.catalogue import BackendSubscription, Channel, ChannelKind, Parameter, ParameterValue
from tocsin.model.schema import ColumnType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES: dict[ColumnType, ParameterValue] = {
    ColumnType.STRING: "it's",
    ColumnType.BOOLEAN: True,
    ColumnType.INT: -5,
    ColumnType.BIGINT: 1 << 40,
    ColumnType.DOUBLE: 500.0,
    ColumnType.TIMESTAMP: "2026-01-02T03:04:05.000006Z",
    ColumnType.DATE: "2026-01-02",
}


def test_tiers_stay_in_memory_and_hold_every_type(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views come and go with each run; what is cached stays cached, and newcomers are as those in tiers."""
    monkeypatch.setattr(module, "MAX_INLINE_NEWCOMERS", 3)
    parameters = tuple(Parameter(type_.lower(), type_) for type_ in ColumnType)
    channel = Channel("Tiered", ChannelKind.CONTINUOUS, parameters, "SELECT 1")
    subscriptions = ChannelSubscriptions(spark, channel, tmp_path, ["double"])

    def come(first: int, last: int) -> None:
        values = tuple(VALUES[type_] for type_ in ColumnType)
        subscriptions.add([BackendSubscription(one, "Tiered", values) for one in range(first, last + 1)])
        subscriptions.view()

    def cached() -> list[bool]:
        return [tier.frame.storageLevel.useMemory for tier in subscriptions._tiers]

    come(1, 30)
    come(31, 32)
    assert cached() == [True]
    come(33, 40)
    assert cached() == [True, True]
    subscriptions.remove([1, 34])
    former = [tier.frame for tier in subscriptions._tiers]
    assert subscriptions.merge(nullcontext())
    assert cached() == [True]
    assert not any(frame.storageLevel.useMemory for frame in former)
    come(41, 42)
    rows = spark.table(subscriptions.view()).toArrow()
    assert sorted(rows.column(0).to_pylist()) == [one for one in range(1, 43) if one not in (1, 34)]
    assert all(len(set(rows.column(type_.lower()).to_pylist())) == 1 for type_ in ColumnType)
    subscriptions.close()
