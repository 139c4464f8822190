"""A folder for temporary data of a cluster: Spark's temporary files, the checkpoint, rows on their way to Spark.

It lies in a folder that others may use too, such as shared memory, so its name can't be guessed and only its owner may
look inside. Only folders that earlier processes of the same cluster left there are ever removed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - folders below it are made by mkdtemp


def fresh_scratch(data_dir: Path, scratch_dir: str) -> Path:
    """A new, empty folder for this process alone; folders of earlier processes are removed. The caller holds the data
    directory's lock, so none of them runs. `scratch_dir` is where to make it; empty for shared memory, if there is any.

    Each process has its own, since the Java process of a killed one may live for another second.
    """
    if scratch_dir:
        parent = Path(scratch_dir)
    elif _SHARED_MEMORY.is_dir() and os.access(_SHARED_MEMORY, os.W_OK):
        parent = _SHARED_MEMORY
    else:
        parent = data_dir / "scratch"
    parent.mkdir(parents=True, exist_ok=True)
    prefix = f"tocsin-{hashlib.sha256(str(data_dir.resolve()).encode()).hexdigest()[:16]}-"
    for entry in list(os.scandir(parent)):
        if entry.name.startswith(prefix) and _is_own_folder(entry):
            shutil.rmtree(entry.path, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    """False for links, and for folders of that name that another user has made."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
