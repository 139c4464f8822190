"""Stopped, killed or robbed of its scratch: a start on the same data goes on, and nothing is lost or doubled.

A kill is played by copying the data at a chosen moment and starting on the copy: what the copy holds is what a
process that died at that moment would have left. Real kills are the chaos harness's.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.conftest import settings_for
from integration.live import Live, serving, wait_until
from tocsin.cluster.datasets import delta
from tocsin.cluster.feeds import ingestion
from tocsin.cluster.feeds.ingestion import Ingestion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMA = """
    CREATE ACTIVE DATASET Records (id INT, k INT, PRIMARY KEY (id));
    CREATE KEYED DATASET Places (who STRING, k INT, PRIMARY KEY (who));
    CREATE FEED records INTO Records FROM HTTP;
    CREATE FEED places INTO Places FROM HTTP;
    CREATE CONTINUOUS CHANNEL Wake (k INT) AS SELECT r.id FROM Records r WHERE is_new(r) AND r.k = :k;
    CREATE CONTINUOUS CHANNEL Near (who STRING) AS
      SELECT r.id, p.k FROM Records r JOIN Places p ON p.who = :who WHERE is_new(r) AND r.k = p.k;
    CREATE REPETITIVE CHANNEL Clock () PERIOD 0.2 SECONDS AS SELECT r.id FROM Records r WHERE is_new(r);
"""


def test_a_stop_and_a_start_change_nothing(serve: Callable[..., AbstractContextManager[Live]]) -> None:
    """Results, subscriptions, schedules, dead letters, idempotency keys, latest rows: all go on where they stood."""
    with serve() as live:
        live.sql(_SCHEMA)
        seat = live.broker("b")
        start = seat.cursor
        ids = {
            seat.subscribe("Wake", k=1): "Wake",
            seat.subscribe("Near", who="ann"): "Near",
            seat.subscribe("Clock"): "Clock",
        }
        live.publish("places", [{"who": "ann", "k": 9}, {"who": "ann", "k": 1}])
        receipt = live.publish("records", b'{"id": 1, "k": 1}\n{"id": "x"}', key="one")["receipt"]
        before = seat.take(3)
        live.cluster.store["Records"].rows.compact()
        live.cluster.store["Places"].compact()
    shutil.rmtree(live.cluster.settings.scratch_dir, ignore_errors=True)
    with serve() as live:
        assert live.client.pull("b", start)[0] == before
        assert live.client.receipt("records", receipt)["rejected"] == 1
        assert live.client.dead_letters("Records")["total"] == 1
        assert live.publish("records", b'{"id": 1, "k": 1}\n{"id": "x"}', key="one")["receipt"] == receipt
        seat = live.broker("b")
        assert seat.subscribe("Wake", k=1) in ids
        live.publish("records", [{"id": 2, "k": 1}], key="two")
        after = seat.take(3)
        assert {one["subscription"] for one in after} == set(ids)
        assert {one["payload"]["id"] for one in after} == {2}
        assert min(one["position"].split("-")[1] for one in after) > max(
            one["position"].split("-")[1] for one in before
        )
        assert live.rows("SELECT id FROM Records ORDER BY id") == [{"id": 1}, {"id": 2}]
        assert live.rows("SELECT who, k FROM Places") == [{"who": "ann", "k": 1}]


def test_what_was_accepted_while_nothing_ran_is_taken_in(serve: Callable[..., AbstractContextManager[Live]]) -> None:
    """Records acknowledged just before the stop are in tables and through channels after the start."""
    with serve() as live:
        live.sql(_SCHEMA)
        seat = live.broker("b")
        seat.subscribe("Wake", k=1)
        with live.cluster.ingestion.batch_lock:
            receipts = [live.client.publish("records", [{"id": n, "k": 1}])["receipt"] for n in range(5)]
            live.cluster.ingestion._stopped = True  # No batch begins any more, as if the process were gone.
    with serve() as live:
        seat.client = live.client
        assert Counter(one["payload"]["id"] for one in seat.take(5)) == Counter(range(5))
        assert {live.client.receipt("records", one)["accepted"] for one in receipts} == {1}


def _copy_if_there(source: str, destination: str) -> str:
    """Temporary files come and go while the copy is made, as they may be there or not when a process is killed."""
    with suppress(FileNotFoundError):
        shutil.copy2(source, destination)
    return destination


@contextmanager
def _copied_at(moment: str, live: Live, copy: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Within the block, the first batch that comes to `moment` leaves a copy of the data directory."""
    done, copying_now = threading.Event(), threading.Lock()
    data, executor, store = live.cluster.settings.data_dir, live.cluster.executor, live.cluster.store["Records"]

    def copying(call: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            answer = None if before else call(*args, **options)
            with copying_now:  # A channel that runs by the clock may come to it at the same time.
                if not done.is_set():
                    shutil.copytree(data, copy, copy_function=_copy_if_there)
                    done.set()
            return call(*args, **options) if before else answer

        return wrapped

    if moment == "before the rows":
        monkeypatch.setattr(store, "commit", copying(store.commit, before=True))
    elif moment == "between rows and results":
        monkeypatch.setattr(store, "commit", copying(store.commit, before=False))
    elif moment == "before the results":
        monkeypatch.setattr(live.cluster.results, "commit", copying(live.cluster.results.commit, before=True))
    elif moment == "after the results":
        monkeypatch.setattr(live.cluster.results, "commit", copying(live.cluster.results.commit, before=False))
    else:
        monkeypatch.setattr(live.cluster.ingestion, "on_commit", copying(executor.run_continuous, before=False))
    yield done
    monkeypatch.undo()


@pytest.mark.parametrize(
    "moment",
    ["before the rows", "between rows and results", "before the results", "after the results", "after the batch"],
)
def test_a_death_at_any_moment_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whatever a process had committed when it died, its successor does the rest, once."""
    with serving(settings_for(tmp_path / "first"), spark) as live:
        live.sql(_SCHEMA)
        seat = live.broker("b")
        start = seat.cursor
        ids = {"Wake": seat.subscribe("Wake", k=1), "Near": seat.subscribe("Near", who="ann")}
        live.publish("places", [{"who": "ann", "k": 1}])
        live.publish("records", [{"id": 1, "k": 1}])
        seat.take(2)
        copy = tmp_path / "second" / "data"
        copy.parent.mkdir()
        with _copied_at(moment, live, copy, monkeypatch) as done:
            live.publish("records", b'{"id": 2, "k": 1}\n{"id": "bad"}', key="two")
            seat.take(2)
            assert done.wait(10)
    for mark_is_lost in (False, True) if moment == "after the batch" else (False,):
        if mark_is_lost:  # Tables are then far ahead of what the log tells.
            (copy / "landing" / "mark").unlink()
        with serving(settings_for(tmp_path / "second"), spark) as live:
            seat = live.broker("b")
            seat.cursor = start
            live.publish("records", b'{"id": 2, "k": 1}\n{"id": "bad"}', key="two")
            live.publish("records", [{"id": 3, "k": 1}], key="three")
            expected = {(one, number) for one in ids.values() for number in (1, 2, 3)}
            found = Counter((one["subscription"], one["payload"]["id"]) for one in seat.take(6))
            assert found == Counter(expected)
            assert live.rows("SELECT id FROM Records ORDER BY id") == [{"id": 1}, {"id": 2}, {"id": 3}]
            assert live.client.dead_letters("Records")["total"] == 1


def test_a_death_while_paused_loses_and_doubles_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """A paused channel is paused after the start too, whatever comes, and once resumed gives all it had missed."""
    copy = tmp_path / "second" / "data"
    copy.parent.mkdir()
    with serving(settings_for(tmp_path / "first"), spark) as live:
        live.sql(_SCHEMA)
        seat = live.broker("b")
        ids = [seat.subscribe("Wake", k=1), seat.subscribe("Clock")]
        live.publish("records", [{"id": 1, "k": 1}])
        seat.take(2)
        live.sql("PAUSE CHANNEL Wake; PAUSE CHANNEL Clock")
        live.publish("records", [{"id": 2, "k": 1}])
        shutil.copytree(live.cluster.settings.data_dir, copy, copy_function=_copy_if_there)
    with serving(settings_for(tmp_path / "second"), spark) as live:
        seat.client = live.client
        live.publish("records", [{"id": 3, "k": 1}])
        assert [live.channel(name)["is_paused"] for name in ("Wake", "Near", "Clock")] == [True, False, True]
        # How many commits it is depends on how much came again together.
        lags = [live.channel(name)["window_lag_commits"] for name in ("Wake", "Near", "Clock")]
        assert [lag > 0 for lag in lags] == [True, False, True]
        assert live.client.pull("b", seat.cursor)[0] == []
        live.sql("RESUME CHANNEL Wake; RESUME CHANNEL Clock")
        found = Counter((one["subscription"], one["payload"]["id"]) for one in seat.take(4))
        assert found == Counter((one, number) for one in ids for number in (2, 3))
    with serving(settings_for(tmp_path / "second"), spark) as live:
        assert not any(one["is_paused"] for one in live.client.status()["channels"])


def test_a_column_that_was_half_added_can_be_added(serve: Callable[..., AbstractContextManager[Live]]) -> None:
    """If the process dies after the table has the column and before the catalogue knows, all works, and ALTER again
    makes it whole."""
    from tocsin.model.schema import Column, ColumnType

    with serve() as live:
        live.sql(_SCHEMA)
        live.publish("records", [{"id": 1, "k": 1}])
        live.publish("places", [{"who": "ann", "k": 1}])
        for name in ("Records", "Places"):
            live.cluster.store[name].add_column(Column("level", ColumnType.INT))
    with serve() as live:
        live.publish("records", [{"id": 2, "k": 1, "level": 5}])
        assert live.rows("SELECT * FROM Records ORDER BY id") == [{"id": 1, "k": 1}, {"id": 2, "k": 1}]
        live.sql("ALTER DATASET Records ADD COLUMN level INT; ALTER DATASET Places ADD COLUMN level INT")
        live.publish("records", [{"id": 3, "k": 1, "level": 5}])
        live.publish("places", [{"who": "bob", "k": 2, "level": 6}])
        assert [row["level"] for row in live.rows("SELECT * FROM Records ORDER BY id")] == [None, None, 5]
        assert [row["level"] for row in live.rows("SELECT * FROM Places ORDER BY who")] == [None, 6]


def test_two_processes_never_share_a_data_directory(serve: Callable[..., AbstractContextManager[Live]]) -> None:
    """A second cluster on the same data is refused at once, and the first goes on."""
    from tocsin.cluster.cluster import Cluster
    from tocsin.errors import ClusterFailure

    with serve() as live:
        with pytest.raises(ClusterFailure, match="open in another process"):
            Cluster(live.cluster.settings)
        assert live.rows("SHOW DATASETS") == []


def test_a_stream_whose_python_process_was_late_is_started_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark waits ten seconds for a Python process; a machine that is busy for longer must not end the cluster."""
    ingest, calls = Ingestion._ingest, []

    def late_at_first(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            raise RuntimeError("Python worker failed to connect back.")
        return ingest(*arguments)

    with serving(settings_for(tmp_path), spark) as live:
        live.sql(_SCHEMA)
        monkeypatch.setattr(Ingestion, "_ingest", late_at_first)
        assert live.client.publish("records", [{"id": 1, "k": 1}], wait_commit=True)["accepted"] == 1
        assert len(calls) == 2
        assert not live.failures


def test_a_stream_that_died_is_noticed(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When ingestion can't go on, the cluster says why, so that its process can end and start again."""
    with serving(settings_for(tmp_path), spark) as live:
        live.sql(_SCHEMA)

        def planted(*_: Any) -> Any:
            raise RuntimeError("planted")

        monkeypatch.setattr(Ingestion, "_ingest", planted)
        receipt = live.client.publish("records", [{"id": 1, "k": 1}])["receipt"]
        wait_until(lambda: bool(live.failures), "the failure is noticed")
        assert "planted" in live.failures.pop()
    monkeypatch.undo()
    with serving(settings_for(tmp_path), spark) as live:
        live.publish("records", [{"id": 2, "k": 1}])
        assert live.client.receipt("records", receipt)["accepted"] == 1


def test_a_full_disk_is_waited_out(
    serve: Callable[..., AbstractContextManager[Live]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While tables can't be written, records are accepted and wait; when there is room, each is there once."""
    attempted = threading.Event()
    write = delta.pq.write_table

    def full(*_: Any, **__: Any) -> None:
        attempted.set()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(ingestion, "_ROOM_PAUSE_S", 0.1)
    with serve() as live:
        live.sql(_SCHEMA)
        seat = live.broker("b")
        seat.subscribe("Wake", k=1)
        monkeypatch.setattr(delta.pq, "write_table", full)
        live.client.publish("records", [{"id": 1, "k": 1}])
        assert attempted.wait(30)
        live.client.publish("records", [{"id": 2, "k": 1}])
        wait_until(lambda: not live.cluster.ingestion._query.isActive, "the stream ends")
        monkeypatch.setattr(delta.pq, "write_table", write)
        assert {one["payload"]["id"] for one in seat.take(2)} == {1, 2}
        assert live.rows("SELECT id FROM Records ORDER BY id") == [{"id": 1}, {"id": 2}]
        assert not live.failures
