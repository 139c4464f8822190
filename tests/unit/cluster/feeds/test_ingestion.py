"""The ingestion tells why it can't go on, even when there is no Spark left to ask."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from tocsin.cluster.feeds.ingestion import Ingestion


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
    starts: list[int] = []
    ingestion.start = lambda: starts.append(1)
    assert [ingestion.keep_running() for _ in range(5)] == [None] * 5
    assert ingestion.keep_running() == "Python worker failed to connect back."
    assert len(starts) == 5
