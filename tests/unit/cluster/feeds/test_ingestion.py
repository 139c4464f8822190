"""The ingestion tells why it can't go on, even when there is no Spark left to ask."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JNetworkError

from tocsin.cluster.datasets.store import DEAD_LETTERS
from tocsin.cluster.feeds.core.frames import FrameHeader
from tocsin.cluster.feeds.ingestion import Ingestion, _refuse_incomplete
from tocsin.cluster.feeds.parsing import Parsed
from tocsin.errors import ClusterFailure


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


def test_a_stream_is_started_again_five_times_in_a_row_at_most() -> None:
    """A Python process that is late is given another chance; one that never comes is a failure."""
    ingestion: Any = Ingestion.__new__(Ingestion)
    ingestion._query = PretendedQuery(active=False, exception=ValueError("Python worker failed to connect back."))
    ingestion._restarts, ingestion._stopped, ingestion.batch_lock = 0, False, threading.Lock()
    ingestion._unannounced = frozenset()
    starts: list[int] = []
    ingestion.start = lambda: starts.append(1)
    assert [ingestion.keep_running() for _ in range(5)] == [None] * 5
    assert ingestion.keep_running() == "Python worker failed to connect back."
    assert len(starts) == 5


def test_a_full_disk_does_not_end_the_cluster() -> None:
    """The stream is started again, every few seconds and as often as it takes, and channels hear what they missed."""
    ingestion: Any = Ingestion.__new__(Ingestion)
    full = ValueError("commit 7 of table rows failed: [Errno 28] No space left on device")
    ingestion._query = PretendedQuery(active=False, exception=full)
    ingestion._restarts, ingestion._stopped, ingestion.batch_lock = 0, False, threading.Lock()
    ingestion._clock, ingestion._restart_at_s = PretendedClock(), 0.0
    ingestion._unannounced = frozenset({"reports"})
    starts: list[float] = []
    heard: list[frozenset[str]] = []
    ingestion.start = lambda: starts.append(ingestion._clock.now_s)
    ingestion._on_commit = heard.append
    for _ in range(300):
        assert ingestion.keep_running() is None
        ingestion._clock.now_s += 1
    assert len(starts) == 60
    assert heard == [frozenset({"reports"})]


@pytest.mark.parametrize("found", [0, 2, 4])
def test_a_batch_that_is_not_what_its_frames_promise_fails(found: int) -> None:
    """Rows and dead letters together are the records that were acknowledged, or nothing is committed."""
    header = FrameHeader(10, 90, "reports", "Reports", "", b"", 3, 0, 0, 40, 0)

    def parsed(rows: int) -> Parsed:
        numbers = pa.chunked_array([list(range(rows))], pa.int64())
        positions = pa.chunked_array([[10] * rows], pa.int64())
        return Parsed(pa.table({"id": numbers}), positions, numbers, DEAD_LETTERS.empty_table())

    _refuse_incomplete("Reports", [header], parsed(3))
    with pytest.raises(ClusterFailure, match=f"promise 3 records for Reports, but {found} came"):
        _refuse_incomplete("Reports", [header], parsed(found))
