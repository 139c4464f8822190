"""Folders that survive a power cut. A file survives only if the folders above it do."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def make_folder(path: Path) -> None:
    """Make a folder, and missing ones above it."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_way_to(folder: Path) -> None:
    """Make a folder and the two above it survive a power cut: another program may have made them."""
    for one in (folder, *folder.absolute().parents[:2]):
        with suppress(PermissionError):  # A folder that can't be read was not made here.
            sync_folder(one)
