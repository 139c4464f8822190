"""The ingestion tells why it can't go on, even when there is no Spark left to ask."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JNetworkError

from tocsin.cluster.datasets.store import DEAD_LETTERS, LANDING_APP, DatasetStore, StoredDataset
from tocsin.cluster.feeds.core.frames import FrameHeader
from tocsin.cluster.feeds.ingestion import Ingestion
from tocsin.cluster.feeds.parsing import Parsed
from tocsin.cluster.metrics import Metrics
from tocsin.errors import ClusterFailure
from tocsin.model.catalogue import Dataset, DatasetKind
from tocsin.model.schema import Column, ColumnType, Schema
from tocsin.runtime.clock import SystemClock
from tocsin.settings import ClusterSettings

_REPORTS = Dataset("Reports", DatasetKind.ACTIVE, Schema((Column("id", ColumnType.INT),), ("id",)))


class PretendedClock:
    now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s


class PretendedQuery:
    def __init__(self, *, active: bool | Exception, exception: Exception | None = None) -> None:
        self._active, self._exception = active, exception

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        if isinstance(self._active, Exception):
            raise self._active
        return self._active

    def exception(self) -> Exception | None:
        return self._exception


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (None, None),
        (PretendedQuery(active=True), None),
        (PretendedQuery(active=False), "the ingestion stream has stopped"),
        (PretendedQuery(active=False, exception=ValueError("a commit failed")), "a commit failed"),
        (PretendedQuery(active=Py4JNetworkError("connection refused")), "Spark is gone: connection refused"),
    ],
)
def test_failure_names_the_reason(query: Any, reason: str | None) -> None:
    """A Java process that has died is a failure like any other, not an error of the question."""
    ingestion: Any = Ingestion.__new__(Ingestion)
    ingestion._query = query
    assert ingestion.keep_running() == reason


def test_a_batch_that_begins_during_the_stop_is_left_to_the_next_start() -> None:
    """Spark's stop waits for it, so it must not wait for the stop."""
    ingestion: Any = Ingestion.__new__(Ingestion)
    ingestion._stopped, ingestion.batch_lock = False, threading.Lock()
    ingestion.metrics, ingestion._pool = Metrics(), SimpleNamespace(shutdown=lambda: None)
    batches: list[threading.Thread] = []

    class BeginsABatch(PretendedQuery):
        def stop(self) -> None:
            batch = threading.Thread(target=ingestion._take_batch, args=(None, 0), daemon=True)
            batches.append(batch)
            batch.start()
            batch.join(10)

    ingestion._query = BeginsABatch(active=True)
    ingestion.stop()
    assert [one.is_alive() for one in batches] == [False]


def test_a_stream_whose_python_process_is_late_is_started_again_for_ten_minutes() -> None:
    """On a starved machine a new start of the cluster would be later still. A process that never comes is a failure.
    A batch that gets through begins the time anew."""
    ingestion: Any = Ingestion.__new__(Ingestion)
    ingestion._query = PretendedQuery(active=False, exception=ValueError("Python worker failed to connect back."))
    ingestion._late_since_s, ingestion._stopped, ingestion.batch_lock = None, False, threading.Lock()
    ingestion.clock, ingestion._unannounced = PretendedClock(), frozenset()
    starts: list[int] = []
    ingestion.start = lambda: starts.append(1)
    for _ in range(61):
        assert ingestion.keep_running() is None
        ingestion.clock.now_s += 10
    assert len(starts) == 61
    assert ingestion.keep_running() == "Python worker failed to connect back."
    ingestion._late_since_s = None  # A batch got through.
    assert ingestion.keep_running() is None


def test_a_full_disk_does_not_end_the_cluster() -> None:
    """The stream is started again, every few seconds and as often as it takes, and channels hear what they missed."""
    ingestion: Any = Ingestion.__new__(Ingestion)
    full = ValueError("commit 7 of table rows failed: [Errno 28] No space left on device")
    ingestion._query = PretendedQuery(active=False, exception=full)
    ingestion._late_since_s, ingestion._stopped, ingestion.batch_lock = None, False, threading.Lock()
    ingestion.clock, ingestion._restart_at_s = PretendedClock(), 0.0
    ingestion._unannounced = frozenset({"reports"})
    starts: list[float] = []
    heard: list[frozenset[str]] = []
    ingestion.start = lambda: starts.append(ingestion.clock.now_s)
    ingestion.on_commit = heard.append
    for _ in range(300):
        assert ingestion.keep_running() is None
        ingestion.clock.now_s += 1
    assert len(starts) == 60
    assert heard == [frozenset({"reports"})]


def _ingestion_of(tmp_path: Path) -> tuple[Any, StoredDataset]:
    """An ingestion into one dataset; what Spark would parse is given by the test."""
    ingestion: Any = Ingestion.__new__(Ingestion)
    ingestion.store = DatasetStore(tmp_path / "datasets", recent_max_bytes=1 << 20)
    ingestion.settings, ingestion.clock, ingestion.metrics = ClusterSettings(), SystemClock(), Metrics()
    ingestion._stopped, ingestion.batch_lock, ingestion.position = False, threading.Lock(), 10
    return ingestion, ingestion.store.open(_REPORTS)


@pytest.mark.parametrize("found", [0, 2, 4])
def test_a_batch_that_is_not_what_its_frames_promise_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: int
) -> None:
    """Rows and dead letters together are the records that were acknowledged, or nothing is committed."""
    header = FrameHeader(10, 90, "reports", "Reports", "", b"", 3, 0, 0, 40, 0)
    ingestion, stored = _ingestion_of(tmp_path)
    rows = 3

    def parsed(*_arguments: Any) -> Parsed:
        numbers = pa.chunked_array([list(range(rows))], pa.int32())
        positions = pa.chunked_array([[10] * rows], pa.int64())
        return Parsed(pa.table({"id": numbers}), positions, numbers, DEAD_LETTERS.empty_table())

    monkeypatch.setattr("tocsin.cluster.feeds.ingestion.parse_frames", lambda *_arguments, **_options: None)
    monkeypatch.setattr("tocsin.cluster.feeds.ingestion.separate", parsed)
    assert ingestion._ingest(None, "reports", [header], 90)
    before, rows = stored.rows.sequence, found
    late = FrameHeader(90, 170, "reports", "Reports", "", b"", 3, 0, 0, 40, 0)
    with pytest.raises(ClusterFailure, match=f"promise 3 records for Reports, but {found} came"):
        ingestion._ingest(None, "reports", [late], 170)
    assert stored.rows.sequence == before
    assert stored.rows.transaction(LANDING_APP) == 90


def test_a_batch_whose_frames_are_not_all_there_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log ends before the batch does: publishers are told nothing of what is missing."""
    header = FrameHeader(10, 90, "reports", "Reports", "", b"", 3, 0, 0, 40, 0)
    ingestion, _ = _ingestion_of(tmp_path)
    told: list[int] = []
    ingestion.on_ingested = told.append
    ingestion._batch_end = lambda _batch: 170
    for headers in ([], [header]):
        ingestion.landing = SimpleNamespace(headers_between=lambda _after, _end, found=headers: found)
        with pytest.raises(ClusterFailure, match="does not hold all frames from 10 to 170"):
            ingestion._take_batch(None, 0)
    assert told == []
    assert ingestion.position == 10
