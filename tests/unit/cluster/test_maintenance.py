"""Upkeep of a cluster, without Spark: what it removes, and when."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tocsin.cluster.cluster import Cluster
from tocsin.cluster.datasets.retention import CommitTimes, RetentionClock
from tocsin.cluster.maintenance import Maintenance
from tocsin.model.catalogue import Dataset, DatasetKind
from tocsin.model.schema import Column, ColumnType, Schema
from tocsin.settings import ClusterSettings

pytestmark = pytest.mark.shell

_DAY_S = 24 * 3600
_REPORTS = Dataset("Reports", DatasetKind.ACTIVE, Schema((Column("id", ColumnType.INT),), ("id",)))


class _SetClock:
    """Says what it is set to."""

    def __init__(self) -> None:
        self.time_s = 1_800_000_000.0
        self.passed_s = 500.0

    def now_us(self) -> int:
        return int(self.time_s * 1e6)

    def monotonic_s(self) -> float:
        return self.passed_s

    def go_on(self, seconds: float) -> None:
        self.time_s += seconds
        self.passed_s += seconds


def test_a_clock_that_jumps_a_week_ahead_removes_nothing(tmp_path: Path) -> None:
    """Neither results nor rows, though by that clock all of them are past their time; when it has really passed, they
    go."""
    clock = _SetClock()
    settings = ClusterSettings(
        data_dir=tmp_path / "data",
        scratch_dir=str(tmp_path / "scratch"),
        result_retention_s=_DAY_S,
        dataset_retention_s=_DAY_S,
    )
    cluster = Cluster(settings, clock)
    stored = cluster.store.open(_REPORTS)
    maintenance = Maintenance(
        settings,
        clock,
        cluster.metrics,
        cluster.store,
        cluster.results,
        cluster.intake,
        CommitTimes(cluster._database),
        RetentionClock(cluster._database, clock.monotonic_s()),
        ingested_position=lambda: 0,
        run_over=lambda _dataset: stored.sequence,
        once=cluster.catalogue.once,
        ids_of=cluster.registry.ids_of,
        own_retentions=cluster.catalogue.own_retentions,
    )

    def kept() -> tuple[int, int]:
        return stored.rows.count(), cluster.results.table.count()

    stored.commit(pa.table({"id": pa.array([1], pa.int32())}))
    result = pa.table({"subscription": pa.array([1], pa.int64()), "payload": ["{}"]})
    cluster.results.commit([("C", result)], {("C", "Reports"): 1}, clock.now_us())
    maintenance.retain()
    clock.go_on(60)
    clock.time_s += 7 * _DAY_S
    maintenance.retain()
    assert kept() == (1, 1)
    clock.time_s -= 7 * _DAY_S
    for _ in range(25):
        clock.go_on(3600)
        maintenance.retain()
    assert kept() == (0, 0)
    cluster.stop()
