"""The processes of `tocsin up`: the options of each, and when the system counts as ready."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec

from tocsin.cli.terminal import err
from tocsin.errors import InvalidValue
from tocsin.runtime import exits
from tocsin.runtime.children import Child
from tocsin.runtime.clock import SystemClock
from tocsin.runtime.exposure import check_exposure
from tocsin.runtime.http_transport import AsyncTransport
from tocsin.runtime.ports import LAST_PORT, is_listening
from tocsin.runtime.run_records import ProcessRecord, RunRecord, write_record
from tocsin.settings import BrokerSettings, ClusterSettings, CoordinatorSettings, Settings
from tocsin.variables import RUN

#: A busy machine may take several times the usual 10 to 20 s.
READY_TIMEOUT_S = 180.0
_POLL_EVERY_S = 0.2
#: Here all brokers end together, so subscribers can't be moved; they come back when the system is up again.
_DRAIN_TIMEOUT_S = 1
#: Ending in order takes a second or two; a process that takes longer is stuck, and every process can be killed at any
#: moment. All brokers end first, then the others together, so ending takes no longer than the sum.
_BROKER_STOP_TIMEOUT_S = 5.0
_STOP_TIMEOUT_S = 12.0
#: The first broker's port in `tocsin up`; 8700 is the port of a broker that is started by itself.
_FIRST_BROKER_PORT = 8701


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the system, and the address that it listens on."""

    name: str
    arguments: Sequence[str]
    host: str
    port: int
    url: str

    @property
    def kind(self) -> str:
        return self.arguments[0]

    @property
    def is_broker(self) -> bool:
        return self.kind == "broker"


@dataclass(frozen=True, slots=True)
class Wishes:
    """The options of `tocsin up`; None: the settings decide."""

    brokers: int
    data_dir: Path
    host: str | None
    cluster_port: int | None
    coordinator_port: int | None
    broker_port: int | None
    config: Path | None


def parts_of(wishes: Wishes, environment: Mapping[str, str] | None = None) -> list[Part]:
    """All processes, in the order in which they start. Raises InvalidValue for settings that can't be followed."""
    cluster = ClusterSettings.load(wishes.config, environment, {"host": wishes.host, "port": wishes.cluster_port})
    coordinator = CoordinatorSettings.load(
        wishes.config, environment, {"host": wishes.host, "port": wishes.coordinator_port}
    )
    broker = BrokerSettings.load(wishes.config, environment, {"host": wishes.host, "port": wishes.broker_port})
    _check_decided_here(cluster, ("data_dir",))
    _check_decided_here(coordinator, ("data_dir", "cluster_url"))
    _check_decided_here(broker, ("data_dir", "name", "cluster_url", "coordinator_url"))
    if broker.url and wishes.brokers > 1:
        raise InvalidValue(f"broker setting url: {wishes.brokers} brokers can't share {broker.url}; give --brokers 1")
    for settings in (cluster, coordinator):
        check_exposure(settings.host, settings.api_token, is_meant=settings.open_to_network)
    first = _FIRST_BROKER_PORT if broker.port == BrokerSettings().port and not wishes.broker_port else broker.port
    cluster_url = _url("http", cluster.host, cluster.port)
    coordinator_url = _url("https" if coordinator.tls_certificate else "http", coordinator.host, coordinator.port)
    parts = [
        Part("cluster", ["cluster"], cluster.host, cluster.port, cluster_url),
        Part(
            "coordinator",
            ["coordinator", "--cluster-url", cluster_url],
            coordinator.host,
            coordinator.port,
            coordinator_url,
        ),
    ]
    for number in range(wishes.brokers):
        name = f"broker-{number + 1}"
        arguments = ["broker", "--name", name, "--cluster-url", cluster_url, "--coordinator-url", coordinator_url]
        arguments += ["--drain-timeout-s", str(_DRAIN_TIMEOUT_S)]
        scheme = "https" if broker.tls_certificate else "http"
        parts.append(Part(name, arguments, broker.host, first + number, _url(scheme, broker.host, first + number)))
    _check_ports(parts)
    config = ["--config", str(wishes.config)] if wishes.config is not None else []
    return [dataclasses.replace(part, arguments=[*part.arguments, *_common(part, wishes), *config]) for part in parts]


def _common(part: Part, wishes: Wishes) -> list[str]:
    return ["--data-dir", str(wishes.data_dir / part.name), "--host", part.host, "--port", str(part.port)]


def _check_decided_here(settings: Settings, names: Sequence[str]) -> None:
    """Refuses values for settings that `tocsin up` decides itself, rather than silently ignoring them."""
    usual = type(settings)()
    for name in names:
        if (value := getattr(settings, name)) != getattr(usual, name):
            raise InvalidValue(
                f"{settings.TABLE} setting {name}: `tocsin up` sets it, so {str(value)!r} would be ignored; "
                f"leave it out, or run `tocsin {settings.TABLE}`"
            )


def _check_ports(parts: Sequence[Part]) -> None:
    names: dict[int, str] = {}
    for part in parts:
        if not 0 < part.port <= LAST_PORT:
            raise InvalidValue(f"{part.name}: {part.port} is no port; allowed are 1 to {LAST_PORT}")
        if (other := names.setdefault(part.port, part.name)) != part.name:
            raise InvalidValue(f"port {part.port} would be both {other}'s and {part.name}'s; give them different ones")


def _url(scheme: str, host: str, port: int) -> str:
    """The address at which this machine reaches a server that listens on `host`."""
    reached_at = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://{f'[{reached_at}]' if ':' in reached_at else reached_at}:{port}"


class System:
    """The running processes, and the record of them. Only processes that this run has started count as ready."""

    def __init__(self, parts: Sequence[Part], data_dir: Path, run: str) -> None:
        self._clock = SystemClock()
        self._data_dir = data_dir
        self.parts = {part.name: part for part in parts}
        environment = {**os.environ, RUN: run}
        self._children = {
            part.name: Child(
                part.name,
                part.arguments,
                data_dir / "logs" / f"{part.name}.log",
                environment,
                _BROKER_STOP_TIMEOUT_S if part.is_broker else _STOP_TIMEOUT_S,
            )
            for part in parts
        }
        records = {part.name: ProcessRecord(part.url) for part in parts}
        self.record = RunRecord(run, os.getpid(), self._clock.now_us(), records)
        self._ending = asyncio.Event()
        self._failure = ""
        self.is_ready = False

    async def start(self) -> str:
        """Start everything. Returns when all is ready, or when it is to end; if it can't start, returns why."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end)
        self._tasks = [asyncio.create_task(child.keep_running(self)) for child in self._children.values()]
        ready = asyncio.create_task(self._until_ready())
        waiting = asyncio.create_task(self._ending.wait())
        done, _ = await asyncio.wait([ready, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=READY_TIMEOUT_S)
        ready.cancel()
        if not done:
            return f"not ready after {READY_TIMEOUT_S:.0f} s: {', '.join(await self._late())}; see {self._logs}"
        self.is_ready = not self._ending.is_set()
        return self._failure

    async def until_asked_to_end(self) -> None:
        await self._ending.wait()

    async def stop(self) -> None:
        """Brokers first, all at once; then the coordinator and the cluster."""
        self._ending.set()
        for brokers in (True, False):
            await asyncio.gather(
                *(child.stop() for name, child in self._children.items() if self.parts[name].is_broker is brokers)
            )
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def started(self, child: Child) -> None:
        assert child.process is not None, "it was started"
        url = self.parts[child.name].url
        self._note(child.name, ProcessRecord(url, child.process.pid, self._clock.now_us(), child.starts))

    def ended(self, child: Child, code: int) -> bool:
        """Returns whether to start the process again. If the system was not ready yet, the process would end again for
        the same reason: then the command prints the reason, and the whole system ends."""
        record = self.record.processes[child.name]
        why = child.last_words()
        self._note(
            child.name, msgspec.structs.replace(record, ended=f"ended with code {code}" + (f": {why}" if why else ""))
        )
        if not self.is_ready:
            self._failure = self._failure or f"{child.name} can't start: {why or f'code {code}'}; see {child.log}"
            self._ending.set()
            return False
        if code == exits.NAME_LOST:
            _say(f"{child.name} is not started again: {why}")
            return False
        _say(f"{child.name} ended with code {code}; starting it again; see {child.log}")
        return True

    def _note(self, name: str, record: ProcessRecord) -> None:
        self.record.processes[name] = record
        with suppress(OSError):  # On a full disk, `tocsin status` shows an old record, and the system goes on.
            write_record(self._data_dir, self.record)

    def _end(self) -> None:
        if self._ending.is_set():  # A second signal: the user does not want to wait.
            for child in self._children.values():
                child.kill()
        self._ending.set()

    @property
    def _logs(self) -> Path:
        return self._data_dir / "logs"

    async def _until_ready(self) -> None:
        async with health_client() as client:
            for part in self.parts.values():
                while not await self._is_ready(client, part):  # noqa: ASYNC110 - it is another process that starts
                    await asyncio.sleep(_POLL_EVERY_S)

    async def _late(self) -> list[str]:
        async with health_client() as client:
            return [part.name for part in self.parts.values() if not await self._is_ready(client, part)]

    async def _is_ready(self, client: httpx.AsyncClient, part: Part) -> bool:
        return await state_at(client, part.url, self.record.processes[part.name].pid) == "ready"


def health_client(timeout_s: float = 1.0) -> httpx.AsyncClient:
    """A client for health checks of processes on this machine. It checks no certificates: process ids identify them."""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname = False
    anybody.verify_mode = ssl.CERT_NONE
    transport = AsyncTransport(verify=anybody, trust_env=False)
    return httpx.AsyncClient(timeout=timeout_s, transport=transport, trust_env=False)


async def state_at(client: httpx.AsyncClient, url: str, pid: int) -> str:
    """The state that process `pid` reports at `url`; empty if it does not answer there, even if another does."""
    if not pid or not is_listening(pid, httpx.URL(url).port or 0):
        return ""
    with suppress(httpx.HTTPError, json.JSONDecodeError, AttributeError):
        return str((await client.get(f"{url}/healthz")).json().get("state", ""))
    return ""


def _say(message: str) -> None:
    err.print(message, style="yellow", markup=False, soft_wrap=True)
