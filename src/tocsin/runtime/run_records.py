"""The record that `tocsin up` writes of its run, for later commands: what it started, where, and since when."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Annotated

import msgspec
import psutil

from tocsin.runtime.folders import LOCK_FILE, is_locked
from tocsin.runtime.ports import in_words
from tocsin.variables import RUN

_FILE = "up.json"
#: A process that was killed is gone within milliseconds.
_KILLED_WITHIN_S = 2.0


#: psutil takes no others.
_Pid = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class ProcessRecord(msgspec.Struct):
    """One process, as it was started last."""

    url: str
    pid: _Pid = 0
    began_at_us: int = 0
    #: How often it was started.
    starts: int = 0
    #: Why it does not run; empty if it runs.
    ended: str = ""


class RunRecord(msgspec.Struct):
    #: In the environment of all processes that this run started, and of their children: no other process has it.
    run: str
    pid: _Pid
    began_at_us: int
    processes: dict[str, ProcessRecord] = {}


def read_record(folder: Path) -> RunRecord | None:
    """The record of the last `tocsin up` of a folder, whether it runs or not; None if there is none to read."""
    try:
        return msgspec.json.decode((folder / _FILE).read_bytes(), type=RunRecord)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def write_record(folder: Path, record: RunRecord) -> None:
    """Readers see the old record or the new one, and nothing in between."""
    new = folder / f"{_FILE}.new"
    new.write_bytes(msgspec.json.encode(record))
    new.replace(folder / _FILE)


def remove_record(folder: Path) -> None:
    (folder / _FILE).unlink(missing_ok=True)


def running_record(folder: Path) -> RunRecord | None:
    """The record of the `tocsin up` that has this folder now: it holds the lock, and is the recorded process."""
    record = read_record(folder) if is_locked(folder) else None
    if record is not None:
        with contextlib.suppress(psutil.Error):
            lock = str((folder / LOCK_FILE).resolve())
            if any(one.path == lock for one in psutil.Process(record.pid).open_files()):
                return record
    return None


def holder_of(folder: Path) -> str:
    """Which process has a folder, in words, as far as this user may know."""
    lock = str((folder / LOCK_FILE).resolve())
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and any(one.path == lock for one in process.open_files()):
                return in_words(process)
    return "another process"


def processes_of(run: str) -> list[psutil.Process]:
    """Living processes that a run started, and their children, such as Java."""
    return [one for one in psutil.process_iter() if _is_of(one, run)]


def kill_processes_of(run: str, after_s: float = 0.0) -> int:
    """Kill the processes of a run that are still there after that time; returns how many, once they are gone."""
    found = processes_of(run)
    if after_s and found:
        _, found = psutil.wait_procs(found, after_s)
    for process in found:
        with contextlib.suppress(psutil.Error):  # It has just ended.
            process.kill()
    psutil.wait_procs(found, _KILLED_WITHIN_S)
    return len(found)


def is_process_of(run: str, pid: int) -> bool:
    """Whether process `pid` was started by that run; another process may have the number by now."""
    try:
        return _is_of(psutil.Process(pid), run)
    except psutil.Error:
        return False


def _is_of(process: psutil.Process, run: str) -> bool:
    try:
        # A process that has ended and was not waited for yet has no environment any more.
        return process.environ().get(RUN) == run
    except (psutil.Error, OSError):
        return False
