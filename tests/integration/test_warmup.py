"""Spark is warmed up after a start, by made-up work or by the cluster's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from integration.conftest import settings_for
from integration.live import Live, serving
from tocsin.cluster import warmup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def live(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A cluster of its own: the shared one has the channels of all tests, and each would take part."""
    with serving(settings_for(tmp_path_factory.mktemp("warm"), warm_up_max_s=600), spark) as cluster:
        yield cluster


@pytest.fixture
def rounds(live: Live, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three rounds are enough here, however long they take; each is noted when it begins. The cluster is as after a
    start."""
    parse, noted = warmup._parse, []

    def note(*arguments: Any) -> None:
        noted.append("round")
        parse(*arguments)

    monkeypatch.setattr(warmup, "_parse", note)
    monkeypatch.setattr(warmup, "_ROUNDS", 3)
    monkeypatch.setattr(live.cluster.ingestion, "batches", 0)
    return noted


def test_it_leaves_no_trace(live: Live, rounds: list[str]) -> None:
    """Rows, results and what the next window is are as before, for channels that take part in it too."""
    live.sql("""
        CREATE ACTIVE DATASET WuRows (id INT, PRIMARY KEY (id));
        CREATE FEED wu_rows INTO WuRows FROM HTTP;
        CREATE REPETITIVE CHANNEL WuRun () PERIOD 1 HOURS AS SELECT r.id FROM WuRows r WHERE is_new(r);
    """)
    seat = live.broker("warm")
    seat.subscribe("WuRun")
    warmup.warm_up(live.cluster)
    assert len(rounds) == 3
    assert live.rows("SELECT id FROM WuRows") == []
    assert live.client.pull("warm", seat.cursor)[0] == []
    live.publish("wu_rows", [{"id": 1}])
    live.cluster.executor.run([live.cluster.executor.states["wurun"]])
    assert [one["payload"] for one in seat.take(1)] == [{"id": 1}]


def test_a_busy_cluster_is_left_to_its_work(live: Live, rounds: list[str]) -> None:
    """Batches of records warm Spark up themselves: each takes the place of a round, but for the first one."""
    live.sql("CREATE ACTIVE DATASET WuBusy (id INT, PRIMARY KEY (id)); CREATE FEED wu_busy INTO WuBusy FROM HTTP")
    live.publish("wu_busy", [{"id": 1}])
    batches = live.cluster.ingestion.batches
    assert batches >= 1
    warmup.warm_up(live.cluster)
    assert len(rounds) == max(1, 3 - batches)
    for number in range(2, 5):
        live.publish("wu_busy", [{"id": number}])
    rounds.clear()
    warmup.warm_up(live.cluster)
    assert len(rounds) == 1


def test_it_ends_after_its_time(live: Live, rounds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No further run begins once warm_up_max_s is over."""
    monkeypatch.setattr(live.cluster, "settings", replace(live.cluster.settings, warm_up_max_s=1e-3))
    warmup.warm_up(live.cluster)
    assert len(rounds) == 1
