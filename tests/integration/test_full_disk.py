"""Starting on a disk without room: one line that says so, and nothing that would have people throw data away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tocsin.broker.shell.store import SessionStore
from tocsin.cluster.cluster import Cluster
from tocsin.coordinator.store.tables import open_tables
from tocsin.runtime.ports import free_port
from tocsin.settings import ClusterSettings

_DISK_MB = 16


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, in memory."""
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", "tmpfs", str(tmp_path)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mounting, check=False).returncode:
        pytest.skip("a small disk can be mounted by root only")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def _make_broker(folder: Path) -> None:
    store = SessionStore(folder)
    store.identity()
    store.close()


def _make_coordinator(folder: Path) -> None:
    folder.mkdir()
    open_tables(folder / "coordinator.sqlite").dispose()


def _make_cluster(folder: Path) -> None:
    settings = ClusterSettings.load(None, overrides={"data_dir": folder, "scratch_dir": folder.parent / "scratch"})
    Cluster(settings).stop()


def _fill(disk: Path) -> None:
    """Until not another byte fits."""
    with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


@pytest.mark.parametrize(
    ("process", "make"), [("broker", _make_broker), ("coordinator", _make_coordinator), ("cluster", _make_cluster)]
)
def test_a_start_on_a_full_disk_says_so_in_one_line(disk: Path, process: str, make: Callable[[Path], None]) -> None:
    """What the folder holds from before is sound: nobody is told to restore it or to move it away."""
    folder = disk / "data"
    make(folder)
    _fill(disk)
    command = [sys.executable, "-m", "tocsin", process, "--data-dir", str(folder), "--port", str(free_port())]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    said = " ".join(ended.stderr.split())
    assert ended.returncode == 1
    assert f"the {process}'s data folder {folder} can't be used: No space left on device. Make room there" in said
    assert "Traceback" not in said
    assert "backup" not in said
