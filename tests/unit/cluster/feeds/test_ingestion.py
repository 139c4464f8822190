"""The ingestion tells why it can't go on, even when there is no Spark left to ask."""

from __future__ import annotations

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
    assert ingestion.failure() == reason
