"""Folders that hold people's data are for their owner alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tocsin.broker.shell.store import SessionStore
from tocsin.cluster.cluster import Cluster
from tocsin.coordinator.node import CoordinatorNode
from tocsin.runtime.files import make_private
from tocsin.settings import ClusterSettings, CoordinatorSettings


def test_a_new_folder_is_its_owners_alone(tmp_path: Path) -> None:
    """Whatever the umask says."""
    before = os.umask(0)
    try:
        make_private(tmp_path / "some" / "data")
    finally:
        os.umask(before)
    assert (tmp_path / "some" / "data").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_was_open_to_everybody_is_closed(tmp_path: Path) -> None:
    """One from an earlier version; what its group may do is somebody's choice."""
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o755)
    make_private(folder)
    assert folder.stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize(
    "make",
    [
        SessionStore,
        lambda folder: CoordinatorNode(CoordinatorSettings(data_dir=folder)),
        lambda folder: Cluster(ClusterSettings(data_dir=folder, scratch_dir=str(folder.parent / "scratch"))),
    ],
    ids=["broker", "coordinator", "cluster"],
)
def test_whoever_keeps_data_keeps_it_in_such_a_folder(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    """Brokers, coordinator and cluster."""
    before = os.umask(0)
    try:
        make(tmp_path / "data")
    finally:
        os.umask(before)
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
