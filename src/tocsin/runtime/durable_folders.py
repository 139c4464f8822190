"""Folders that are there after a power cut. A file can be relied on only if the folders above it can."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def make_folder(path: Path) -> None:
    """A folder, and those above it that are missing."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def sync_folder(path: Path) -> None:
    """Have the names in a folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_way_to(folder: Path) -> None:
    """A folder that somebody has made, perhaps with the two above it: it is where it is after a power cut."""
    for one in (folder, *folder.absolute().parents[:2]):
        with suppress(PermissionError):  # What may not be read was not made here.
            sync_folder(one)
