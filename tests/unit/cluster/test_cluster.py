"""A cluster as a whole, without Spark."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tocsin.cluster.cluster import Cluster, ClusterState
from tocsin.errors import ClusterFailure
from tocsin.settings import ClusterSettings

pytestmark = pytest.mark.shell


def test_a_cluster_that_can_make_nothing_durable_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a sync that failed only a start helps, so whoever watches is told to end the process."""
    cluster: Any = Cluster(ClusterSettings(data_dir=tmp_path / "data", scratch_dir=str(tmp_path / "scratch")))
    cluster.ingestion = SimpleNamespace(keep_running=lambda: None)
    cluster.state = ClusterState.READY
    assert cluster.check_alive() is None

    def fail(_path: Path) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("tocsin.cluster.datasets.table_files.os.fsync", fail)
        with pytest.raises(ClusterFailure):
            cluster.results.set_bounds({("C", "D"): 1})
    assert "input/output error" in cluster.check_alive()
    cluster.stop()
