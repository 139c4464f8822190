"""One process per data folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tocsin.errors import ClusterFailure
from tocsin.runtime.files import make_private


def lock_folder(folder: Path, title: str) -> int:
    """Have a folder for this process alone, until the descriptor is closed or the process ends in whatever way."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(lock)
        raise ClusterFailure(f"{title} {folder} is open in another process") from exc
    return lock


@contextmanager
def locked_folder(folder: Path, title: str) -> Iterator[None]:
    """The same, for as long as it is entered. The folder is made if it is not there."""
    make_private(folder)
    lock = lock_folder(folder, title)
    try:
        yield
    finally:
        os.close(lock)
