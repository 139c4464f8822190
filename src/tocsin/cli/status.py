"""`tocsin status`: shows the processes of `tocsin up` in a folder."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from tocsin.cli.system import health_client, state_at
from tocsin.cli.terminal import AsJson, out, print_json, print_rows
from tocsin.cli.up import DataDir, at_folder
from tocsin.runtime.folders import is_locked
from tocsin.runtime.run_records import ProcessRecord, RunRecord, holder_of, is_process_of, read_record, running_record

READY = "ready"
ENDED = "ended"
#: The process runs and does not answer at its address: it has just been started, or is stuck.
SILENT = "no answer"


def run_status(data_dir: DataDir = Path("data"), as_json: AsJson = False) -> None:
    """Show the processes that `tocsin up` runs in a folder: addresses, start times, and whether they are ready.

    The exit code is 0 if everything is ready, else 1.
    """
    running = running_record(data_dir)
    record = running or read_record(data_dir)
    processes = asyncio.run(_look(record)) if record is not None else []
    is_ready = running is not None and all(one["state"] == READY for one in processes)
    if as_json:
        print_json(
            {
                "data_dir": str(data_dir),
                "running": running is not None,
                "ready": is_ready,
                "pid": running.pid if running else None,
                "since": _instant(running.began_at_us) if running else None,
                "processes": processes,
            }
        )
    elif running is None and not any(one["pid"] for one in processes):
        option = at_folder(data_dir)
        held = f"the folder is in use by {holder_of(data_dir)}" if is_locked(data_dir) else ""
        out.print(
            f"nothing runs in {data_dir}: {held or f'start it with `tocsin up{option}`'}", markup=False, soft_wrap=True
        )
    else:
        _show(processes)
        if running is None:
            option = at_folder(data_dir)
            gone = "the `tocsin up` that started these processes is gone"
            out.print(
                f"{gone}; `tocsin down{option}` ends them, `tocsin up{option}` starts anew",
                markup=False,
                soft_wrap=True,
            )
    if not is_ready:
        raise typer.Exit(1)


async def _look(record: RunRecord) -> list[dict[str, Any]]:
    async with health_client() as client:

        async def state_of(process: ProcessRecord) -> str:
            if not is_process_of(record.run, process.pid):
                return ENDED
            return await state_at(client, process.url, process.pid) or SILENT

        states = await asyncio.gather(*(state_of(process) for process in record.processes.values()))
    return [
        {
            "name": name,
            "state": state,
            "pid": None if state == ENDED else process.pid,
            "url": process.url,
            "since": _instant(process.began_at_us) if state != ENDED else None,
            "starts": process.starts,
            "reason": process.ended if state == ENDED else "",
        }
        for (name, process), state in zip(record.processes.items(), states, strict=True)
    ]


def _show(processes: list[dict[str, Any]]) -> None:
    now = datetime.now().astimezone()
    rows = []
    for one in processes:
        since = datetime.fromisoformat(one["since"]).astimezone() if one["since"] else None
        # A table of 80 columns has room for only one of the two.
        written = f"{since:%H:%M:%S}" if since and since.date() == now.date() else f"{since:%Y-%m-%d}" if since else ""
        rows.append([one["name"], one["state"], one["pid"] or "", written, one["url"]])
    print_rows(["process", "state", "pid", "since", "address"], rows)
    for one in processes:
        if one["reason"]:
            out.print(f"{one['name']} {one['reason']}", markup=False, soft_wrap=True)


def _instant(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="seconds")
