"""`tocsin up`: the whole system in one command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from tocsin.cli.terminal import AsJson, err, fail, out, print_json
from tocsin.errors import InvalidValue
from tocsin.runtime.children import Child
from tocsin.settings import BrokerSettings, ClusterSettings, CoordinatorSettings
from tocsin.variables import variable_of

#: A busy machine may take several times the usual 10 to 20 s.
_READY_TIMEOUT_S = 180.0
_POLL_EVERY_S = 0.2
#: Brokers end together here, so there is nobody to hand over to; subscribers come back when all is up again.
_DRAIN_TIMEOUT_S = 1


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the system, and where it serves."""

    child: Child
    url: str


def run_up(
    brokers: Annotated[int, typer.Option(min=1, max=50, help="How many brokers.")] = 3,
    data_dir: Annotated[Path, typer.Option(help="Where everything durable lives.")] = Path("data"),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    cluster_port: Annotated[int, typer.Option(help="The data cluster's port.")] = 8600,
    coordinator_port: Annotated[int, typer.Option(help="The coordinator's port.")] = 8500,
    broker_port: Annotated[int, typer.Option(help="The first broker's port; the others follow.")] = 8701,
    config: Annotated[
        Path | None, typer.Option(help="TOML file of settings, a table for each kind of process.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a data cluster, a coordinator and brokers, each a process of its own, until Ctrl-C.

    Prints where everything is once it is ready. A process that ends is started again. `logs` in the data directory has
    each process's log and, while it runs, its process id. With --json, one object with all addresses is printed
    instead.
    """
    if config is not None and not config.exists():
        fail(f"no such file: {config}")
    try:
        os.environ.update(token_for_brokers(config, os.environ))
    except InvalidValue as exc:
        fail(str(exc))
    options = ["--config", str(config)] if config is not None else []
    parts = _parts(brokers, data_dir, host, (cluster_port, coordinator_port, broker_port), options)
    raise typer.Exit(asyncio.run(_run(parts, data_dir, as_json=as_json)))


def token_for_brokers(config: Path | None, environment: Mapping[str, str]) -> dict[str, str]:
    """A broker_token for all processes, if they need one and none is set: it need not outlive them."""
    servers = (ClusterSettings.load(config, environment), CoordinatorSettings.load(config, environment))
    brokers = BrokerSettings.load(config, environment)
    if not any(one.api_token for one in servers) or any(one.broker_token for one in (*servers, brokers)):
        return {}
    token = secrets.token_urlsafe()
    return {variable_of(one.TABLE, "broker_token"): token for one in (*servers, brokers)}


def _parts(
    brokers: int, data_dir: Path, host: str, ports: tuple[int, int, int], options: Sequence[str]
) -> dict[str, Part]:
    """In the order in which they start; they stop in the opposite one."""
    reached_at = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    named = [("cluster", ports[0]), ("coordinator", ports[1])]
    named += [(f"broker-{number + 1}", ports[2] + number) for number in range(brokers)]
    urls = {name: f"http://{reached_at}:{port}" for name, port in named}
    parts = {}
    for name, port in named:
        arguments = ["broker", "--name", name] if name.startswith("broker-") else [name]
        arguments += ["--data-dir", str(data_dir / name), "--host", host, "--port", str(port), *options]
        if name.startswith("broker-"):
            arguments += ["--cluster-url", urls["cluster"], "--coordinator-url", urls["coordinator"]]
            arguments += ["--drain-timeout-s", str(_DRAIN_TIMEOUT_S)]
        if name == "coordinator":
            arguments += ["--cluster-url", urls["cluster"]]
        child = Child(name, arguments, data_dir / "logs" / f"{name}.log", stop_timeout_s=40)
        parts[name] = Part(child, urls[name])
    return parts


async def _run(parts: dict[str, Part], data_dir: Path, *, as_json: bool) -> int:
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)

    def ended(child: Child, code: int) -> None:
        err.print(f"{child.name} ended with code {code}; starting it again; see {child.log}", style="yellow")

    tasks = [asyncio.create_task(part.child.keep_running(ended)) for part in parts.values()]
    try:
        if not as_json:
            err.print("starting; Spark takes 10 to 20 seconds", style="dim")
        ready = asyncio.create_task(_until_ready(parts))
        waiting = asyncio.create_task(ending.wait())
        await asyncio.wait([ready, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=_READY_TIMEOUT_S)
        if not ready.done():
            ready.cancel()
            if not ending.is_set():
                err.print(f"not ready after {_READY_TIMEOUT_S:.0f} s; see {data_dir / 'logs'}", style="bold red")
                return 1
        elif not ending.is_set():
            _show(parts, data_dir, as_json=as_json)
        await waiting
    finally:
        await _stop(parts, tasks, as_json=as_json)
    return 0


async def _stop(parts: dict[str, Part], tasks: Sequence[asyncio.Task[None]], *, as_json: bool) -> None:
    if not as_json:
        err.print("stopping", style="dim")
    # Brokers first, all at once; then the coordinator, then the cluster.
    await asyncio.gather(*(part.child.stop() for name, part in parts.items() if name.startswith("broker-")))
    for name in ("coordinator", "cluster"):
        await parts[name].child.stop()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _until_ready(parts: dict[str, Part]) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        for name, part in parts.items():
            while True:
                if await _is_ready(client, name, part.url):
                    break
                await asyncio.sleep(_POLL_EVERY_S)


async def _is_ready(client: httpx.AsyncClient, name: str, url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        if name == "cluster":
            answer = await client.get(f"{url}/healthz")
            return answer.is_success and answer.json().get("state") == "ready"
        return (await client.get(f"{url}/healthz")).is_success
    return False


def _show(parts: dict[str, Part], data_dir: Path, *, as_json: bool) -> None:
    addresses: dict[str, Any] = {name: part.url for name, part in parts.items()}
    if as_json:
        print_json({**addresses, "data_dir": str(data_dir)})
        return
    for name, url in addresses.items():
        out.print(f"{name:12} {url}", markup=False, highlight=False)
    out.print(f"{'logs':12} {data_dir / 'logs'}", markup=False, highlight=False)
    page = parts["broker-1"].url
    out.print(
        f"""
Try it, from another terminal:
  tocsin sql "SHOW DATASETS"
  tocsin subscribe "MyChannel(name => 'value')"
  {page}/  subscribes from a browser
  {parts["coordinator"].url}/  the dashboard
Ctrl-C stops everything.""",
        markup=False,
        highlight=False,
    )
