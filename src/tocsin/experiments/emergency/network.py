"""A whole Tocsin of its own for the demonstration: cluster, coordinator and brokers, each a process on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tocsin.experiments.emergency.city import City
from tocsin.testing.processes import ServerProcess, running_broker, running_cluster, running_coordinator

#: A cluster is ready within 20 s on two cores; a busy machine gets more than four times that.
_READY_TIMEOUT_S = 90.0
#: A request that was turned away for the moment is sent again this often; with a second's pause, half a minute.
_ATTEMPTS = 30


class DemoFailed(Exception):
    """Something did not do what the demonstration asked of it."""


class ClusterApi:
    """Calls to the cluster: waits when told to, and raises with the cluster's own words when refused."""

    def __init__(self, client: httpx.AsyncClient, log: Path) -> None:
        self._client = client
        self._log = log

    async def call(self, method: str, path: str, **request: Any) -> httpx.Response:
        for _ in range(_ATTEMPTS):
            try:
                answer = await self._client.request(method, path, **request)
            except httpx.HTTPError as exc:
                raise DemoFailed(f"{method} {path}: {exc!r}\n{_tail(self._log)}") from exc
            if answer.status_code not in (429, 503):
                break
            await asyncio.sleep(float(answer.headers.get("Retry-After", 1)))
        if answer.is_error:
            raise DemoFailed(f"{method} {path} was answered with {answer.status_code}: {answer.text}")
        return answer


@dataclass(frozen=True, slots=True)
class Network:
    cluster: ClusterApi
    coordinator_url: str
    brokers: dict[str, ServerProcess]


@contextlib.asynccontextmanager
async def running_network(folder: Path, city: City, brokers: int, say: Callable[[str], None]) -> AsyncIterator[Network]:
    """Everything started and ready to serve; stopped and gone at the end."""
    say(f"starting a cluster, a coordinator and {brokers} brokers")
    async with contextlib.AsyncExitStack() as stack:
        cluster = stack.enter_context(running_cluster(folder / "cluster"))
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=cluster.url, timeout=120.0, trust_env=False)
        )
        coordinator = stack.enter_context(running_coordinator(folder / "coordinator"))
        await _until_ready(client, cluster)
        running: dict[str, ServerProcess] = {}
        for at in range(brokers):
            name = f"broker-{at + 1}"
            # Side by side across the city, so that each has a part that it is nearest to.
            place = f"{city.width_m * (at + 0.5) / brokers:.0f},{city.height_m / 2:.0f}"
            settings = {"place": place, "drain_timeout_s": 10}
            running[name] = stack.enter_context(
                running_broker(name, folder / name, cluster.url, coordinator.url, settings)
            )
        say(f"the cluster serves at {cluster.url}, the coordinator at {coordinator.url}")
        yield Network(ClusterApi(client, cluster.log), coordinator.url, running)


async def _until_ready(client: httpx.AsyncClient, cluster: ServerProcess) -> None:
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while time.monotonic() < deadline:
        if (code := cluster.process.poll()) is not None:
            raise DemoFailed(f"the cluster ended with exit code {code}:\n{_tail(cluster.log)}")
        with contextlib.suppress(httpx.TransportError):
            answer = await client.get("/v1/status")
            if answer.status_code == 200 and answer.json().get("state") == "ready":
                return
        await asyncio.sleep(0.1)
    raise DemoFailed(f"the cluster was not ready after {_READY_TIMEOUT_S:.0f} s:\n{_tail(cluster.log)}")


def _tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
