"""`tocsin down`: end what `tocsin up` runs in a folder."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import typer

from tocsin.cli.terminal import AsJson, fail, out, print_json
from tocsin.cli.up import DataDir
from tocsin.runtime import run_records
from tocsin.runtime.folders import is_locked

#: More than `tocsin up` takes at most: it kills processes that do not end.
_STOP_TIMEOUT_S = 25.0
_KILLED_WITHIN_S = 2.0


def run_down(data_dir: DataDir = Path("data"), as_json: AsJson = False) -> None:
    """End the processes that `tocsin up` runs in a folder, and wait for their end. It is no error if nothing runs.

    Only processes that `tocsin up` started in that folder are ended, also those that a killed one has left behind. The
    exit code is 1 if a process still runs.
    """
    began_s = time.monotonic()
    running = run_records.running_record(data_dir)
    record = running or run_records.read_record(data_dir)
    if running is None and is_locked(data_dir):
        holder = run_records.holder_of(data_dir)
        fail(f"the data folder {data_dir} is in use by {holder}, which wrote no record; it was not ended")
    in_time = running is None or _end(running, data_dir)
    left = run_records.kill_processes_of(record.run) if record is not None else 0
    if record is not None and running is None:
        run_records.remove_record(data_dir)
    names = [name for name, one in running.processes.items() if not one.ended] if running is not None else []
    if as_json:
        print_json({"data_dir": str(data_dir), "stopped": names, "killed": left, "in_order": in_time})
    elif running is not None:
        took_s = time.monotonic() - began_s
        out.print(f"stopped {', '.join(names)} in {took_s:.1f} s", markup=False, soft_wrap=True)
        if not in_time:
            out.print(f"`tocsin up` did not end within {_STOP_TIMEOUT_S:g} s and was killed", soft_wrap=True)
    elif not left:
        out.print(f"nothing runs in {data_dir}", markup=False, soft_wrap=True)
    if left and not as_json:
        out.print(f"killed processes that were left behind ({left})", soft_wrap=True)
    raise typer.Exit(0)


def _end(running: run_records.RunRecord, data_dir: Path) -> bool:
    """Ask `tocsin up` to end, and kill it if it does not; returns whether it ended in order."""
    try:
        os.kill(running.pid, signal.SIGTERM)
        if _is_free(data_dir, _STOP_TIMEOUT_S):
            return True
        os.kill(running.pid, signal.SIGKILL)
        _is_free(data_dir, _KILLED_WITHIN_S)
    except ProcessLookupError:
        return True
    except PermissionError:
        fail(f"process {running.pid} belongs to another user; it was not ended")
    return False


def _is_free(data_dir: Path, within_s: float) -> bool:
    """Whether the folder is released within that time: `tocsin up` keeps it until all processes have ended."""
    deadline_s = time.monotonic() + within_s
    while is_locked(data_dir):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)  # The release of a lock is no event, except for processes that wait to take it.
    return True
