"""One live cluster for all integration tests. Each test uses names of its own, so that none sees another's records."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from integration.live import Live, serving
from tocsin.settings import ClusterSettings

# What a cluster in this process logs must not come between the lines of a command that a test runs here as well.
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.__stderr__))

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def settings_for(folder: Path, **changes: Any) -> ClusterSettings:
    """Settings with nothing but `folder` written to, and impatient where a test would have to wait."""
    defaults: dict[str, Any] = {
        "data_dir": folder / "data",
        "scratch_dir": str(folder / "scratch"),
        "import_folders": (folder / "more-imports",),
        "select_max_rows": 100,
    }
    return ClusterSettings(**{**defaults, **changes})


@pytest.fixture(scope="session")
def live(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """The cluster that most tests share."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "more-imports").mkdir()
    with serving(settings_for(folder), spark) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _still_alive(request: pytest.FixtureRequest) -> None:
    """Once the shared cluster has died, tests that need it say so at once instead of waiting for it."""
    if "live" in request.fixturenames and (failures := request.getfixturevalue("live").failures):
        pytest.fail(f"the cluster died in an earlier test: {failures[0][:500]}")


@pytest.fixture
def serve(spark: SparkSession, tmp_path: Path) -> Callable[..., AbstractContextManager[Live]]:
    """`with serve(port=…) as live:` is a cluster of one's own; again, and it goes on with the same data."""
    return lambda **changes: serving(settings_for(tmp_path, **changes), spark)
