"""Data folders: whether one can be used, and a lock that gives each to one process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tocsin.errors import ClusterFailure, InvalidValue
from tocsin.runtime.files import make_private

#: Written to test for free space: about what new databases and logs take before the first record comes.
_TRIED_BYTES = 1 << 20
#: A process that checks whether a folder is locked holds its lock for a moment (`is_locked`).
_WAIT_FOR_ASKERS_S = 0.3
LOCK_FILE = "lock"


def check_usable(folder: Path, title: str) -> None:
    """Make the folder if need be, and write a file and remove it again. Raises InvalidValue if that fails."""
    try:
        make_private(folder)
        with tempfile.TemporaryFile(dir=folder) as tried:
            tried.write(bytes(_TRIED_BYTES))
            tried.flush()
            os.fsync(tried.fileno())
    except OSError as exc:
        raise _unusable(folder, title, exc) from exc


@contextmanager
def blaming_full_disk(folder: Path, title: str) -> Iterator[None]:
    """If the block fails, and the folder can't be written, raise that instead: databases on a full disk seem to be
    damaged, and an operator who believed that would replace them with older ones."""
    try:
        yield
    except Exception as exc:
        try:
            check_usable(folder, title)
        except InvalidValue as unusable:
            raise unusable from exc
        raise


def lock_folder(folder: Path, title: str) -> int:
    """Lock a folder for this process, until the descriptor is closed or the process ends in any way."""
    try:
        lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as exc:
        raise _unusable(folder, title, exc) from exc
    deadline_s = time.monotonic() + _WAIT_FOR_ASKERS_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            if time.monotonic() > deadline_s:
                os.close(lock)
                raise _open_elsewhere(folder, title) from exc
            time.sleep(0.05)  # A released lock does not wake processes that try without waiting.
        else:
            return lock


@contextmanager
def locked_folder(folder: Path, title: str) -> Iterator[None]:
    """The same, while the block runs. Makes the folder if it is missing."""
    try:
        make_private(folder)
    except OSError as exc:
        raise _unusable(folder, title, exc) from exc
    lock = lock_folder(folder, title)
    try:
        yield
    finally:
        os.close(lock)


def is_locked(folder: Path) -> bool:
    """Whether a process has locked the folder. Tries the lock for a moment, and creates nothing."""
    with contextlib.ExitStack() as stack:
        try:
            lock = os.open(folder / LOCK_FILE, os.O_RDONLY)
        except OSError:
            return False
        stack.callback(os.close, lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def refuse_locked(folder: Path, title: str) -> None:
    """Raise what `lock_folder` would raise, before a command imports what only the owner of the folder needs."""
    if is_locked(folder):
        raise _open_elsewhere(folder, title)


def _open_elsewhere(folder: Path, title: str) -> ClusterFailure:
    return ClusterFailure(f"{title} {folder} is open in another process")


def _unusable(folder: Path, title: str, exc: OSError) -> InvalidValue:
    no_folder = isinstance(exc, FileExistsError | NotADirectoryError)
    why = "it is, or lies below, something that is no folder" if no_folder else exc.strerror or exc
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        why = f"{why}. Make room there, and start again; the folder's contents are unchanged"
    return InvalidValue(f"{title} {folder} can't be used: {why}")
