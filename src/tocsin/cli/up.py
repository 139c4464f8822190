"""`tocsin up`: the whole system in one command."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tocsin.cli.connecting import DEFAULT_COORDINATOR_URL, DEFAULT_URL
from tocsin.cli.system import Part, System, Wishes, parts_of
from tocsin.cli.terminal import AsJson, err, fail, out, print_json
from tocsin.errors import ClusterFailure, TocsinError
from tocsin.runtime import run_records
from tocsin.runtime.folders import check_usable, lock_folder
from tocsin.runtime.ports import check_port
from tocsin.settings import BrokerSettings, ClusterSettings, CoordinatorSettings
from tocsin.variables import CLUSTER_URL, COORDINATOR_URL, variable_of

_TITLE = "the data folder"
#: Java ends by itself when its cluster has ended, within half a second on a quiet machine.
_JAVA_WITHIN_S = 3.0


def _folder(text: str | Path) -> Path:
    """A folder as it was typed. An empty text, such as from an unset variable, would mean the current folder."""
    if not str(text).strip():
        raise typer.BadParameter("the folder's name is empty; `.` is the current folder")
    return Path(text)


DataDir = Annotated[Path, typer.Option(parser=_folder, metavar="PATH", help="The data directory of `tocsin up`.")]


def run_up(
    brokers: Annotated[int, typer.Option(min=1, max=50, help="The number of brokers.")] = 3,
    data_dir: Annotated[
        Path, typer.Option(parser=_folder, metavar="PATH", help="The folder of all durable data.")
    ] = Path("data"),
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    cluster_port: Annotated[int | None, typer.Option(help="The data cluster's port. [default: 8600]")] = None,
    coordinator_port: Annotated[int | None, typer.Option(help="The coordinator's port. [default: 8500]")] = None,
    broker_port: Annotated[
        int | None, typer.Option(help="The first broker's port; the others follow. [default: 8701]")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="TOML file of settings, a table for each kind of process.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a data cluster, a coordinator and brokers, each a process of its own, until Ctrl-C or `tocsin down`.

    Prints all addresses once everything is ready. A process that ends is started again; all end with this one, however
    it ends. `logs` in the data directory has each process's log and, while it runs, its process id. If a port is in
    use, the data directory can't be used or another `tocsin up` has it, the command says so at once, with exit code 1.
    With --json, it prints one object with all addresses instead.
    """
    wishes = Wishes(brokers, data_dir, host, cluster_port, coordinator_port, broker_port, config)
    try:
        os.environ.update(token_for_brokers(config, os.environ))
        parts = parts_of(wishes)
        check_usable(data_dir, _TITLE)
        with _had_alone(data_dir):
            _end_leftovers(data_dir)
            for part in parts:
                check_port(part.host, part.port, part.name, f"give another with --{part.kind}-port")
            code = asyncio.run(_run(parts, data_dir, as_json=as_json))
    except TocsinError as exc:
        fail(str(exc))
    raise typer.Exit(code)


def token_for_brokers(config: Path | None, environment: Mapping[str, str]) -> dict[str, str]:
    """A broker_token for all processes, if they need one and none is set: it need not outlive them."""
    servers = (ClusterSettings.load(config, environment), CoordinatorSettings.load(config, environment))
    brokers = BrokerSettings.load(config, environment)
    if not any(one.api_token for one in servers) or any(one.broker_token for one in (*servers, brokers)):
        return {}
    token = secrets.token_urlsafe()
    return {variable_of(one.TABLE, "broker_token"): token for one in (*servers, brokers)}


@contextmanager
def _had_alone(data_dir: Path) -> Iterator[None]:
    try:
        lock = lock_folder(data_dir, _TITLE)
    except ClusterFailure as exc:
        raise ClusterFailure(_in_use(data_dir)) from exc
    try:
        yield
    finally:
        os.close(lock)


def _in_use(data_dir: Path) -> str:
    record = run_records.running_record(data_dir)
    if record is None:
        return f"{_TITLE} {data_dir} is in use by {run_records.holder_of(data_dir)}; give another with --data-dir"
    since = datetime.fromtimestamp(record.began_at_us / 1e6, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    option = at_folder(data_dir)
    return (
        f"{_TITLE} {data_dir} is in use: `tocsin up` runs there since {since} (process {record.pid}); "
        f"`tocsin status{option}` shows it, `tocsin down{option}` ends it"
    )


def at_folder(data_dir: Path) -> str:
    """The option that names a data directory, where it is needed."""
    return "" if data_dir == Path("data") else f" --data-dir {data_dir}"


def _end_leftovers(data_dir: Path) -> None:
    """End processes that an earlier run has left behind: we have the folder's lock, so that run is over."""
    record = run_records.read_record(data_dir)
    if record is not None and (count := run_records.kill_processes_of(record.run)):
        err.print(f"ended processes that an earlier `tocsin up` had left behind ({count})", style="yellow")
    run_records.remove_record(data_dir)
    for stale in (data_dir / "logs").glob("*.pid"):
        stale.unlink(missing_ok=True)


async def _run(parts: Sequence[Part], data_dir: Path, *, as_json: bool) -> int:
    system = System(parts, data_dir, secrets.token_hex(16))
    run_records.write_record(data_dir, system.record)
    if not as_json:
        err.print("starting; Spark takes 10 to 20 seconds", style="dim")
    try:
        if failure := await system.start():
            err.print(failure, style="red", markup=False, soft_wrap=True)
            return 1
        if system.is_ready:
            _show(parts, data_dir, as_json=as_json)
            await system.until_asked_to_end()
    finally:
        if not as_json:
            err.print("stopping", style="dim")
        await system.stop()
        await asyncio.to_thread(run_records.kill_processes_of, system.record.run, _JAVA_WITHIN_S)
        run_records.remove_record(data_dir)
    return 0


def _show(parts: Sequence[Part], data_dir: Path, *, as_json: bool) -> None:
    addresses: dict[str, Any] = {part.name: part.url for part in parts}
    if as_json:
        print_json({**addresses, "data_dir": str(data_dir)})
        return
    for name, url in addresses.items():
        out.print(f"{name:12} {url}", markup=False, highlight=False, soft_wrap=True)
    out.print(f"{'logs':12} {data_dir / 'logs'}", markup=False, highlight=False, soft_wrap=True)
    out.print(banner(addresses, data_dir), markup=False, highlight=False, soft_wrap=True)


def banner(addresses: dict[str, str], data_dir: Path) -> str:
    """Commands to try first, with the addresses as variables if the ports are not the usual ones."""
    usual = {CLUSTER_URL: ("cluster", DEFAULT_URL), COORDINATOR_URL: ("coordinator", DEFAULT_COORDINATOR_URL)}
    others = [f"{name}={addresses[part]}" for name, (part, url) in usual.items() if addresses[part] != url]
    export = f"\n  export {' '.join(others)}" if others else ""
    option = at_folder(data_dir)
    return f"""
Try it, from another terminal:{export}
  tocsin sql "SHOW DATASETS"
  tocsin subscribe "MyChannel(name => 'value')"
  {addresses["broker-1"]}/  subscribes from a browser
  {addresses["coordinator"]}/  the dashboard
`tocsin status{option}` shows the processes. Ctrl-C or `tocsin down{option}` stops everything."""
