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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration.conftest import settings_for
from integration.live import BrokerSeat, Live, serving, wait_until
from tocsin.cluster.datasets import delta
from tocsin.cluster.feeds import ingestion
from tocsin.cluster.feeds.ingestion import Ingestion
from tocsin.model.schema import Column, ColumnType

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


_GROWING = """
    CREATE ACTIVE DATASET Grown (id INT, k INT, PRIMARY KEY (id));
    CREATE KEYED DATASET GrownPlaces (who STRING, k INT, PRIMARY KEY (who));
    CREATE FEED grown INTO Grown FROM HTTP;
    CREATE FEED grown_places INTO GrownPlaces FROM HTTP;
"""
_WAITING = """
    CREATE ACTIVE DATASET Waiting (id INT, PRIMARY KEY (id));
    CREATE FEED waiting INTO Waiting FROM HTTP;
    CREATE CONTINUOUS CHANNEL Waits () AS SELECT r.id FROM Waiting r WHERE is_new(r);
"""


@dataclass
class Restarted:
    """A cluster that was stopped, and started again without its scratch; and what it had told before."""

    live: Live
    #: The broker's cursor before anything, its channels by subscription, its results, and a receipt.
    start: int
    channels: dict[int, str]
    results: list[dict[str, Any]]
    receipt: str
    #: A broker whose results were yet to be made, and the receipts of the records that they are about.
    waiting: BrokerSeat
    unfinished: list[str]


@pytest.fixture(scope="module")
def restarted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restarted]:
    settings = settings_for(tmp_path_factory.mktemp("restarted"))
    with serving(settings, spark) as live:
        live.sql(_SCHEMA)
        seat = live.broker("b")
        start = seat.cursor
        wanted: list[tuple[str, dict[str, Any]]] = [("Wake", {"k": 1}), ("Near", {"who": "ann"}), ("Clock", {})]
        channels = {seat.subscribe(channel, **parameters): channel for channel, parameters in wanted}
        live.publish("places", [{"who": "ann", "k": 9}, {"who": "ann", "k": 1}])
        receipt = live.publish("records", b'{"id": 1, "k": 1}\n{"id": "x"}', key="one")["receipt"]
        results = seat.take(3)
        live.cluster.store["Records"].rows.compact()
        live.cluster.store["Places"].compact()
        live.sql(_GROWING)
        live.publish("grown", [{"id": 1, "k": 1}])
        live.publish("grown_places", [{"who": "ann", "k": 1}])
        for name in ("Grown", "GrownPlaces"):
            live.cluster.store[name].add_column(Column("level", ColumnType.INT))
        live.sql(_WAITING)
        waiting = live.broker("waiting")
        waiting.subscribe("Waits")
        with live.cluster.ingestion.batch_lock:
            unfinished = [live.client.publish("waiting", [{"id": n}])["receipt"] for n in range(5)]
            live.cluster.ingestion._stopped = True  # No batch begins any more, as if the process were gone.
    shutil.rmtree(settings.scratch_dir, ignore_errors=True)
    with serving(settings, spark) as live:
        waiting.client = live.client
        yield Restarted(live, start, channels, results, receipt, waiting, unfinished)


def test_a_stop_and_a_start_change_nothing(restarted: Restarted) -> None:
    """Results, subscriptions, schedules, dead letters, idempotency keys, latest rows: all go on where they stood."""
    live, before = restarted.live, restarted.results
    assert live.client.pull("b", restarted.start)[0] == before
    assert live.client.receipt("records", restarted.receipt)["rejected"] == 1
    assert live.client.dead_letters("Records")["total"] == 1
    again = live.publish("records", b'{"id": 1, "k": 1}\n{"id": "x"}', key="one")
    assert again["receipt"] == restarted.receipt
    seat = live.broker("b")
    assert seat.subscribe("Wake", k=1) in restarted.channels
    live.publish("records", [{"id": 2, "k": 1}], key="two")
    after = seat.take(3)
    assert {one["subscription"] for one in after} == set(restarted.channels)
    assert {one["payload"]["id"] for one in after} == {2}
    assert min(one["position"].split("-")[1] for one in after) > max(one["position"].split("-")[1] for one in before)
    assert live.rows("SELECT id FROM Records ORDER BY id") == [{"id": 1}, {"id": 2}]
    assert live.rows("SELECT who, k FROM Places") == [{"who": "ann", "k": 1}]


def test_what_was_accepted_while_nothing_ran_is_taken_in(restarted: Restarted) -> None:
    """Records acknowledged just before the stop are in tables and through channels after the start."""
    assert Counter(one["payload"]["id"] for one in restarted.waiting.take(5)) == Counter(range(5))
    client = restarted.live.client
    assert {client.receipt("waiting", one)["accepted"] for one in restarted.unfinished} == {1}


def test_a_column_that_was_half_added_can_be_added(restarted: Restarted) -> None:
    """If the process dies after the table has the column and before the catalogue knows, all works, and ALTER again
    makes it whole."""
    live = restarted.live
    live.publish("grown", [{"id": 2, "k": 1, "level": 5}])
    assert live.rows("SELECT * FROM Grown ORDER BY id") == [{"id": 1, "k": 1}, {"id": 2, "k": 1}]
    live.sql("ALTER DATASET Grown ADD COLUMN level INT; ALTER DATASET GrownPlaces ADD COLUMN level INT")
    live.publish("grown", [{"id": 3, "k": 1, "level": 5}])
    live.publish("grown_places", [{"who": "bob", "k": 2, "level": 6}])
    assert [row["level"] for row in live.rows("SELECT * FROM Grown ORDER BY id")] == [None, None, 5]
    assert [row["level"] for row in live.rows("SELECT * FROM GrownPlaces ORDER BY who")] == [None, 6]


def test_two_processes_never_share_a_data_directory(restarted: Restarted) -> None:
    """A second cluster on the same data is refused at once, and the first goes on."""
    from tocsin.cluster.cluster import Cluster
    from tocsin.errors import ClusterFailure

    with pytest.raises(ClusterFailure, match="open in another process"):
        Cluster(restarted.live.cluster.settings)
    assert "Records" in [row["dataset"] for row in restarted.live.rows("SHOW DATASETS")]


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


#: Channels that are paused when the first process dies.
_PAUSED = """
    CREATE ACTIVE DATASET Held (id INT, PRIMARY KEY (id));
    CREATE FEED held INTO Held FROM HTTP;
    CREATE CONTINUOUS CHANNEL HeldWake () AS SELECT r.id FROM Held r WHERE is_new(r);
    CREATE REPETITIVE CHANNEL HeldClock () PERIOD 0.2 SECONDS AS SELECT r.id FROM Held r WHERE is_new(r);
    CREATE CONTINUOUS CHANNEL HeldBeside () AS SELECT r.id FROM Held r WHERE is_new(r);
"""
_HELD = ("HeldWake", "HeldBeside", "HeldClock")
_MOMENTS = (
    "before the rows",
    "between rows and results",
    "before the results",
    "after the results",
    "after the batch",
)


def test_a_death_at_any_moment_loses_and_doubles_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a process had committed when it died, its successor does the rest, once. One process after the other
    dies, each at its own moment; the first while channels are paused: they are paused after the start too, whatever
    comes, and once resumed give all that they had missed."""
    lives = [tmp_path / f"life-{number}" for number in range(len(_MOMENTS) + 2)]
    with serving(settings_for(lives[0]), spark) as live:
        live.sql(_SCHEMA)
        seat = live.broker("b")
        start = seat.cursor
        ids = [seat.subscribe("Wake", k=1), seat.subscribe("Near", who="ann")]
        live.publish("places", [{"who": "ann", "k": 1}])
        live.publish("records", [{"id": 1, "k": 1}])
        seat.take(2)
        paused, held = _pause(live)
        shutil.copytree(live.cluster.settings.data_dir, lives[1] / "data", copy_function=_copy_if_there)

    def check(live: Live, last: int) -> BrokerSeat:
        """All up to the last record are there once; it can be sent again."""
        seat = live.broker("b")
        seat.cursor = start
        if last > 1:
            live.publish("records", _good_and_bad(last), key=str(last))
        expected = {(one, number) for one in ids for number in range(1, last + 1)}
        found = Counter((one["subscription"], one["payload"]["id"]) for one in seat.take(len(expected)))
        assert found == Counter(expected)
        assert live.rows("SELECT id FROM Records ORDER BY id") == [{"id": number} for number in range(1, last + 1)]
        assert live.client.dead_letters("Records")["total"] == last - 1
        return seat

    for number, moment in enumerate(_MOMENTS, 1):
        with serving(settings_for(lives[number]), spark) as live:
            seat = check(live, number)
            if number == 1:
                _check_paused_and_resume(live, paused, held)
            elif number == 2:
                assert not any(one["is_paused"] for one in live.client.status()["channels"])
            with _copied_at(moment, live, lives[number + 1] / "data", monkeypatch) as done:
                live.publish("records", _good_and_bad(number + 1), key=str(number + 1))
                seat.take(2)
                assert done.wait(10)
    last = len(_MOMENTS) + 1
    for mark_is_lost in (False, True):
        if mark_is_lost:  # Tables are then far ahead of what the log tells.
            (lives[-1] / "data" / "landing" / "mark").unlink()
        with serving(settings_for(lives[-1]), spark) as live:
            seat = check(live, last)
            last += 1
            live.publish("records", _good_and_bad(last), key=str(last))
            seat.take(2)


def _good_and_bad(number: int) -> bytes:
    return b'{"id": %d, "k": 1}\n{"id": "bad"}' % number


def _pause(live: Live) -> tuple[BrokerSeat, list[int]]:
    """Two of three channels are paused, with a record that they have not seen."""
    live.sql(_PAUSED)
    seat = live.broker("paused")
    held = [seat.subscribe("HeldWake"), seat.subscribe("HeldClock")]
    live.publish("held", [{"id": 1}])
    seat.take(2)
    live.sql("PAUSE CHANNEL HeldWake; PAUSE CHANNEL HeldClock")
    live.publish("held", [{"id": 2}])
    return seat, held


def _check_paused_and_resume(live: Live, seat: BrokerSeat, held: list[int]) -> None:
    seat.client = live.client
    live.publish("held", [{"id": 3}])
    assert [live.channel(name)["is_paused"] for name in _HELD] == [True, False, True]
    # How many commits it is depends on how much came again together.
    lags = [live.channel(name)["window_lag_commits"] for name in _HELD]
    assert [lag > 0 for lag in lags] == [True, False, True]
    assert live.client.pull("paused", seat.cursor)[0] == []
    live.sql("RESUME CHANNEL HeldWake; RESUME CHANNEL HeldClock")
    found = Counter((one["subscription"], one["payload"]["id"]) for one in seat.take(4))
    assert found == Counter((one, number) for one in held for number in (2, 3))
    live.sql("DROP CHANNEL HeldClock")  # It runs by the clock; the moments below are the others'.


def test_a_stream_whose_python_process_was_late_is_started_again(
    restarted: Restarted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark waits ten seconds for a Python process; a machine that is busy for longer must not end the cluster."""
    ingest, calls = Ingestion._ingest, []

    def late_at_first(*arguments: Any) -> Any:
        if arguments[2] == "late":
            calls.append(arguments)
            if len(calls) == 1:
                raise RuntimeError("Python worker failed to connect back.")
        return ingest(*arguments)

    live = restarted.live
    live.sql("CREATE ACTIVE DATASET Late (id INT, PRIMARY KEY (id)); CREATE FEED late INTO Late FROM HTTP")
    monkeypatch.setattr(Ingestion, "_ingest", late_at_first)
    assert live.client.publish("late", [{"id": 1}], wait_commit=True)["accepted"] == 1
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


def test_a_full_disk_is_waited_out(restarted: Restarted, monkeypatch: pytest.MonkeyPatch) -> None:
    """While tables can't be written, records are accepted and wait; when there is room, each is there once."""
    attempted = threading.Event()
    write = delta.pq.write_table
    live = restarted.live

    def full(*_: Any, **__: Any) -> None:
        attempted.set()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(ingestion, "_ROOM_PAUSE_S", 0.1)
    live.sql("""
        CREATE ACTIVE DATASET Roomy (id INT, PRIMARY KEY (id));
        CREATE FEED roomy INTO Roomy FROM HTTP;
        CREATE CONTINUOUS CHANNEL Rooms () AS SELECT r.id FROM Roomy r WHERE is_new(r);
    """)
    seat = live.broker("roomy")
    seat.subscribe("Rooms")
    monkeypatch.setattr(delta.pq, "write_table", full)
    live.client.publish("roomy", [{"id": 1}])
    assert attempted.wait(30)
    live.client.publish("roomy", [{"id": 2}])
    wait_until(lambda: not live.cluster.ingestion._query.isActive, "the stream ends")
    monkeypatch.setattr(delta.pq, "write_table", write)
    assert {one["payload"]["id"] for one in seat.take(2)} == {1, 2}
    assert live.rows("SELECT id FROM Roomy ORDER BY id") == [{"id": 1}, {"id": 2}]
    assert not live.failures
